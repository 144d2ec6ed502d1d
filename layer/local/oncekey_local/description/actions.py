"""The IAM actions of a role: what the layer calls for a function, and no more.

The constructs grant them, and the local store refuses all others.
"""

from __future__ import annotations

# What the layer calls for a handler. No DeleteItem (a record ends by its TTL), no Query or Scan.
# A transaction needs no action of its own: IAM asks for those of its items.
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis-iam.html
RESERVE_ACTIONS = ("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:GetItem")
# The reconciler does the same to the records that it has found on the index.
DUE_ACTIONS = ("dynamodb:Query",)
PUBLISH_ACTIONS = ("dynamodb:PutItem",)
# The relay deletes in batches, which is an IAM action of its own, and notes refused messages.
RELAY_ACTIONS = ("dynamodb:BatchWriteItem", "dynamodb:UpdateItem")
# A sweep scans the outbox, and so does a relay that keeps messages in order.
SWEEP_ACTIONS = ("dynamodb:Scan",)
# What Lambda's poller does under the function's role.
STREAM_ACTIONS = (
    "dynamodb:DescribeStream",
    "dynamodb:GetRecords",
    "dynamodb:GetShardIterator",
    "dynamodb:ListStreams",
)
# The function calls the last one itself, to delay a message that it cannot work on yet.
RECEIVE_ACTIONS = (
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:GetQueueAttributes",
    "sqs:ChangeMessageVisibility",
)
# It covers SendMessageBatch as well.
SEND_ACTIONS = ("sqs:SendMessage",)
KEEP_ACTIONS = ("s3:PutObject", "s3:GetObject")
FETCH_ACTIONS = ("s3:GetObject",)
# Without it S3 answers "denied" for a missing object, and a lost answer would look like an outage.
LIST_ACTIONS = ("s3:ListBucket",)

# A service's own tables.
READ_ACTIONS = ("dynamodb:GetItem",)
WRITE_ACTIONS = ("dynamodb:PutItem",)
UPDATE_ACTIONS = ("dynamodb:UpdateItem",)
DELETE_ACTIONS = ("dynamodb:DeleteItem",)
CHECK_ACTIONS = ("dynamodb:ConditionCheckItem",)
QUERY_ACTIONS = ("dynamodb:Query",)
SCAN_ACTIONS = ("dynamodb:Scan",)
