"""The store on DynamoDB: the only code that uses its API and its expressions."""
