"""The service's description and the CDK app that deploys it."""
