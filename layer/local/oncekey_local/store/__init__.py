"""The local DynamoDB, SQS and S3 on moto, and what the runtime itself asks of them."""
