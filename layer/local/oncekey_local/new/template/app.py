"""The CDK app: deploys the description. `npx aws-cdk synth` runs it (cdk.json)."""

from aws_cdk import App, CfnOutput, Stack
from oncekey_cdk import AuditTable, IdempotentHttpApi, IdempotentService, OncekeyOperators

from service import SERVICE

app = App()
stack = Stack(app, SERVICE.name)
api = IdempotentHttpApi(
    stack,
    "Api",
    jwt_issuer="https://login.example.com/",  # who signs your callers' tokens
    jwt_audience=[SERVICE.name],
    cors=SERVICE.cors,
)
created = IdempotentService(stack, "Service", SERVICE, api=api)
# `oncekey list --stack NAME` and the others find the resources by it.
OncekeyOperators.described(
    stack,
    "Operators",
    SERVICE,
    resources=created.resources,
    audit=AuditTable(stack, "Audit"),
)
CfnOutput(stack, "ApiUrl", value=api.api.api_endpoint)
app.synth()
