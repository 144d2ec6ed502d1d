"""Where records, messages and large answers are kept: the verbs of a store, DynamoDB, S3, SQS."""
