"""The CDK app: deploys the description. `npx aws-cdk synth` runs it (cdk.json)."""

from aws_cdk import App, CfnOutput, Stack
from oncekey_cdk import IdempotentHttpApi, IdempotentService

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
IdempotentService(stack, "Service", SERVICE, api=api)
CfnOutput(stack, "ApiUrl", value=api.api.api_endpoint)
app.synth()
