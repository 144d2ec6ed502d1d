"""What the layer's tables look like: their keys, TTL, index and stream.

The constructs, the description of a service and the tables of tests are made of it, and the guide
for tables without the CDK is compared with it. DynamoDB can rename none of these attributes, so
they are fixed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

# The index of the records that somebody must look at, in the order of when. Settled records are not
# in it.
DUE_INDEX = "due"
DUE_PARTITION_KEY = "due_shard"
DUE_SORT_KEY = "due_at"


class TableSchema(Value, kw_only=True):
    """The schema of one table.

    Args:
        partition_key: name of the partition key, of type S.
        sort_key: name of the sort key, of type S; empty if there is none.
        ttl_attribute: the attribute that items expire by; empty if they do not expire.
        has_due_index: whether it has the index `due`, by which a reconciler finds open records.
        has_stream: whether it has a stream, by which a relay is called.
    """

    partition_key: str
    sort_key: str = ""
    ttl_attribute: str = ""
    has_due_index: bool = False
    has_stream: bool = False

    def create_request(self, name: str) -> dict[str, Any]:
        """The parameters of boto3's `create_table` for such a table, on demand."""
        request: dict[str, Any] = {
            "TableName": name,
            "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [*_key_schema(self.partition_key, self.sort_key)],
            "AttributeDefinitions": [
                {"AttributeName": attribute, "AttributeType": type_}
                for attribute, type_ in self._types().items()
            ],
        }
        if self.has_due_index:
            request["GlobalSecondaryIndexes"] = [
                {
                    "IndexName": DUE_INDEX,
                    "KeySchema": [*_key_schema(DUE_PARTITION_KEY, DUE_SORT_KEY)],
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                }
            ]
        if self.has_stream:
            stream = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
            request["StreamSpecification"] = stream
        return request

    def ttl_request(self, name: str) -> dict[str, Any] | None:
        """The parameters of boto3's `update_time_to_live`; None if items do not expire."""
        if not self.ttl_attribute:
            return None
        specification = {"AttributeName": self.ttl_attribute, "Enabled": True}
        return {"TableName": name, "TimeToLiveSpecification": specification}

    def _types(self) -> dict[str, str]:
        types = dict.fromkeys(filter(None, (self.partition_key, self.sort_key)), "S")
        due = {DUE_PARTITION_KEY: "S", DUE_SORT_KEY: "N"}
        return {**types, **(due if self.has_due_index else {})}


IDEMPOTENCY = TableSchema(partition_key="pk", ttl_attribute="expires_at", has_due_index=True)
# A message that is not sent yet must not be deleted, so it has no TTL.
OUTBOX = TableSchema(partition_key="id", has_stream=True)
AUDIT = TableSchema(partition_key="pk", sort_key="at", ttl_attribute="expires_at")


def _key_schema(partition_key: str, sort_key: str = "") -> Iterator[dict[str, str]]:
    yield {"AttributeName": partition_key, "KeyType": "HASH"}
    if sort_key:
        yield {"AttributeName": sort_key, "KeyType": "RANGE"}
