"""The store on DynamoDB: the only code that knows its API and its expressions."""
