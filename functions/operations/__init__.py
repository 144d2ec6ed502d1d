"""The operations function: `GET /operations/{operation_id}`, where a 202 leads."""
