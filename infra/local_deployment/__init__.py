"""Deployments on this machine by the CDK's own command line: `make deploy-local`.

Two emulators of AWS, because neither is enough: moto's server takes part in a deployment of stage
production and runs no function; ministack runs the functions, the API and the event sources, and
leaves other things out. What both leave out is asserted on the templates, in tests/infra.
"""
