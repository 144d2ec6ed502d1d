"""DynamoDB's calls over own HTTPS connections: a small, fast stand-in for boto3's client."""
