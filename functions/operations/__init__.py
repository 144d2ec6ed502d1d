"""The operations function: `GET /operations/{operation_id}`, the status of a job."""
