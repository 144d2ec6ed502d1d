"""What a workload asks of DynamoDB: units, storage, money, and where a partition runs hot. Pure."""
