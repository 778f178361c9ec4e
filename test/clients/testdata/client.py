# SPDX-License-Identifier: Apache-2.0
"""Creates a table, puts, queries, pages, batches, waits: prints "ok"."""
import os
from decimal import Decimal

import boto3
from boto3.dynamodb.conditions import Attr, Key

db = boto3.resource("dynamodb", endpoint_url=os.environ["EXTENDDB_ENDPOINT"])
table = db.create_table(
    TableName="scores",
    BillingMode="PAY_PER_REQUEST",
    AttributeDefinitions=[
        {"AttributeName": "player", "AttributeType": "S"},
        {"AttributeName": "at", "AttributeType": "N"},
        {"AttributeName": "points", "AttributeType": "N"},
    ],
    KeySchema=[{"AttributeName": "player", "KeyType": "HASH"}, {"AttributeName": "at", "KeyType": "RANGE"}],
    LocalSecondaryIndexes=[{
        "IndexName": "by-points",
        "KeySchema": [{"AttributeName": "player", "KeyType": "HASH"}, {"AttributeName": "points", "KeyType": "RANGE"}],
        "Projection": {"ProjectionType": "ALL"},
    }],
)
table.wait_until_exists()

with table.batch_writer() as batch:
    for i in range(60):
        batch.put_item({"player": "ann", "at": i, "points": Decimal(100 - i) / 4, "tags": {"x", str(i)}, "bag": [1, {"n": None}]})

page = table.query(KeyConditionExpression=Key("player").eq("ann"), Limit=25, ScanIndexForward=False)
seen = [int(it["at"]) for it in page["Items"]]
while "LastEvaluatedKey" in page:
    page = table.query(KeyConditionExpression=Key("player").eq("ann"), Limit=25, ScanIndexForward=False,
                       ExclusiveStartKey=page["LastEvaluatedKey"])
    seen += [int(it["at"]) for it in page["Items"]]
assert seen == list(range(59, -1, -1)), seen

top = table.query(IndexName="by-points", KeyConditionExpression=Key("player").eq("ann") & Key("points").gte(24),
                  FilterExpression=Attr("tags").contains("x"))
assert [it["points"] for it in top["Items"]] == [Decimal(100 - i) / 4 for i in range(4, -1, -1)], top

new = table.update_item(Key={"player": "ann", "at": 0}, UpdateExpression="ADD points :p SET bag[0] = :v",
                        ExpressionAttributeValues={":p": Decimal("0.1"), ":v": "first"}, ReturnValues="UPDATED_NEW")
assert new["Attributes"] == {"points": Decimal("25.1"), "bag": ["first"]}, new

try:
    table.put_item(Item={"player": "ann", "at": 0}, ConditionExpression=Attr("player").not_exists())
    raise AssertionError("the condition did not hold and the item was put")
except db.meta.client.exceptions.ConditionalCheckFailedException:
    pass

table.delete()
table.wait_until_not_exists()
print("ok")
