#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads one backup with nothing but the Python standard library.

    read_backup.py BACKUP_DIR [--items FILE]

BACKUP_DIR is <store>/<account>/<table>/<backup id>. Everything docs/format.md
says of a backup that extenddb wrote is checked: names, digests, counts, every
line byte for byte. The result is one JSON object on stdout; the exit code is 1
when something is wrong. --items writes every item, one JSON object per line,
with sorted members, to FILE.
"""

import base64
import decimal
import gzip
import hashlib
import json
import os
import re
import sys

TOP = ["format_version", "backup_arn", "backup_name", "backup_creation_date_time", "backup_size_bytes",
       "source_backend", "source_extenddb_version", "snapshot", "source_table", "data_files", "manifest_sha256"]
TABLE = ["table_name", "table_id", "table_arn", "table_creation_date_time", "key_schema", "attribute_definitions",
         "billing_mode", "provisioned_throughput", "on_demand_throughput", "table_class", "sse_specification",
         "global_secondary_indexes", "local_secondary_indexes", "vector_indexes", "item_count", "table_size_bytes"]
FILE = ["key", "item_count", "sha256", "bytes"]
SUMMARY = ["version", "exportArn", "startTime", "endTime", "tableArn", "tableId", "exportTime", "s3Bucket", "s3Prefix",
           "s3SseAlgorithm", "s3SseKmsKeyId", "manifestFilesS3Key", "billedSizeBytes", "itemCount", "outputFormat"]
EXPORT_FILE = ["itemCount", "md5Checksum", "etag", "dataFileS3Key"]
PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?\Z")
SCIENTIFIC = re.compile(r"-?[1-9](\.[0-9]*[1-9])?E-?[1-9][0-9]*\Z")


class Bad(Exception):
    pass


def need(ok, what):
    if not ok:
        raise Bad(what)


def no_duplicates(pairs):
    out = dict(pairs)
    need(len(out) == len(pairs), "duplicate member")
    return out


def parse(text, what):
    try:
        return json.loads(text, object_pairs_hook=no_duplicates)
    except ValueError as e:
        raise Bad(f"{what}: {e}") from e


def compact(v):
    """The canonical spelling: no white space, only what must be escaped is."""
    return json.dumps(v, separators=(",", ":"), ensure_ascii=False)


def read(root, name):
    with open(os.path.join(root, *name.split("/")), "rb") as f:
        return f.read()


def in_order(doc, names, what):
    need(list(doc) == [n for n in names if n in doc], f"{what}: members {list(doc)} are unknown or out of order")


def manifest(root):
    raw = read(root, "extenddb-manifest.json").decode("utf-8")
    doc = parse(raw, "manifest")
    need(list(doc) == TOP, f"manifest: members {list(doc)}")
    need(doc["format_version"] == 1, "manifest: format version")
    in_order(doc["source_table"], TABLE, "source_table")
    need(compact(doc) == raw, "manifest: not in canonical form")
    digest = doc["manifest_sha256"]
    body = compact({**doc, "manifest_sha256": ""}).encode()
    need(hashlib.sha256(body).hexdigest() == digest, "manifest: digest")
    return doc


def number(text):
    need(len(text) <= 40 and PLAIN.match(text) or SCIENTIFIC.match(text), f"number {text} is not in canonical form")
    need(text != "-0", "minus zero")
    digits = decimal.Decimal(text).as_tuple().digits
    need(len("".join(map(str, digits)).strip("0")) <= 38, f"number {text} has too many digits")
    if "E" in text:
        need(len(format(decimal.Decimal(text), "f")) > 40, f"number {text} is short enough to be plain")
    return text


def plain(text):
    """The plain form, by which number sets are sorted."""
    p = format(decimal.Decimal(text), "f")
    return p.rstrip("0").rstrip(".") if "." in p else p


def sorted_unique(members, key, what):
    keys = [key(m) for m in members]
    need(members and all(a < b for a, b in zip(keys, keys[1:])), f"{what}: empty, unsorted or with duplicates")


def value(v, depth):
    need(depth <= 32 and len(v) == 1, "nesting or type tags")
    (tag, x), = v.items()
    if tag == "S":
        need(isinstance(x, str), "S")
    elif tag == "N":
        number(x)
    elif tag == "B":
        base64.b64decode(x, validate=True)
    elif tag == "SS":
        sorted_unique(x, lambda s: s.encode(), "SS")
    elif tag == "NS":
        sorted_unique(x, lambda n: plain(number(n)).encode(), "NS")
    elif tag == "BS":
        sorted_unique(x, lambda b: base64.b64decode(b, validate=True), "BS")
    elif tag == "BOOL":
        need(x is True or x is False, "BOOL")
    elif tag == "NULL":
        need(x is True, "NULL")
    elif tag == "L":
        for e in x:
            value(e, depth + 1)
    elif tag == "M":
        members(x, depth + 1)
    else:
        raise Bad(f"type tag {tag}")


def members(m, depth):
    need(list(m) == sorted(m, key=lambda s: s.encode()), "attributes are not sorted")
    for v in m.values():
        value(v, depth)


def line(raw, keys):
    need(len(raw) + 1 <= 4 << 20, "line longer than 4 MiB")
    doc = parse(raw, "line")
    need(list(doc) == ["Item"], "line has other members than Item")
    members(doc["Item"], 1)
    need(compact(doc).encode() == raw, "line is not in canonical form")
    for name, kind in keys:
        need(kind in doc["Item"].get(name, {}), f"key attribute {name} is missing or of another type")
    return doc["Item"]


def data_file(root, entry, keys, seen, out):
    raw = read(root, entry["key"])
    need(len(raw) == entry["bytes"], f"{entry['key']}: size")
    need(hashlib.sha256(raw).hexdigest() == entry["sha256"], f"{entry['key']}: digest")
    need(raw[:10] == bytes([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF]), f"{entry['key']}: gzip header")
    text = gzip.decompress(raw)
    need(text == b"" or text.endswith(b"\n"), f"{entry['key']}: last line has no end")
    n = 0
    for n, ln in enumerate(text.split(b"\n")[:-1], 1):
        try:
            item = line(ln, keys)
        except (Bad, ValueError, decimal.InvalidOperation) as e:
            raise Bad(f"{entry['key']} line {n}: {e}") from e
        key = compact([item[name] for name, _ in keys])
        need(key not in seen, f"{entry['key']} line {n}: key {key} appears twice")
        seen.add(key)
        if out:
            out.write(json.dumps(item, sort_keys=True, separators=(",", ":")) + "\n")
    need(n == entry["item_count"], f"{entry['key']}: {n} lines, {entry['item_count']} expected")
    return raw, text


def md5_text(raw):
    return base64.b64encode(hashlib.md5(raw).digest()).decode()


def exports(root, doc, raws, where):
    for name in ("manifest-summary", "manifest-files"):
        need(read(root, name + ".md5").decode() == md5_text(read(root, name + ".json")), f"{name}.md5")
    summary = parse(read(root, "manifest-summary.json"), "summary")
    need(list(summary) == SUMMARY, f"summary: members {list(summary)}")
    need(compact(summary).encode() == read(root, "manifest-summary.json"), "summary: not in canonical form")
    t = doc["source_table"]
    need(summary["itemCount"] == t["item_count"] and summary["billedSizeBytes"] == t["table_size_bytes"]
         and summary["tableArn"] == t["table_arn"] and summary["tableId"] == t["table_id"]
         and ("/" + summary["s3Prefix"]).endswith("/" + where)
         and summary["manifestFilesS3Key"] == summary["s3Prefix"] + "/manifest-files.json"
         and summary["outputFormat"] == "DYNAMODB_JSON" and summary["version"] == "2020-06-30", "summary: values")
    lines = read(root, "manifest-files.json").decode()
    need(lines.endswith("\n"), "manifest-files.json: last line has no end")
    files = [parse(ln, "manifest-files.json") for ln in lines.split("\n")[:-1]]
    need(len(files) == len(doc["data_files"]), "manifest-files.json: number of files")
    for f, entry, raw in zip(files, doc["data_files"], raws):
        need(list(f) == EXPORT_FILE, "manifest-files.json: members")
        need(("/" + f["dataFileS3Key"]).endswith("/" + where + "/" + entry["key"]) and f["itemCount"] == entry["item_count"]
             and f["md5Checksum"] == md5_text(raw), f"manifest-files.json: {entry['key']}")


def names(root):
    found = set()
    for directory, _, files in os.walk(root):
        for f in files:
            if f.startswith(".put-") and f.endswith(".tmp"):
                continue  # of a writer that died: part of no backup
            found.add(os.path.relpath(os.path.join(directory, f), root).replace(os.sep, "/"))
    return found


def backup(root, out):
    doc = manifest(root)
    account, table, ident = os.path.abspath(root).split(os.sep)[-3:]
    where = f"{account}/{table}/{ident}"
    need(doc["backup_arn"].endswith(f":{account}:table/{table}/backup/{ident}"), "ARN and directory disagree")
    t = doc["source_table"]
    kinds = {a["AttributeName"]: a["AttributeType"] for a in t["attribute_definitions"]}
    keys = [(k["AttributeName"], kinds[k["AttributeName"]]) for k in t["key_schema"]]
    seen, raws, plain_bytes = set(), [], 0
    for i, entry in enumerate(doc["data_files"], 1):
        need(list(entry) == FILE and entry["key"] == f"data/{i:06d}.json.gz", f"data_files: {entry}")
        raw, text = data_file(root, entry, keys, seen, out)
        raws.append(raw)
        plain_bytes += len(text)
    need(raws, "no data file")
    need(len(seen) == t["item_count"], "item_count")
    need(sum(map(len, raws)) == doc["backup_size_bytes"], "backup_size_bytes")
    exports(root, doc, raws, where)
    expected = {"_started", "manifest-files.json", "manifest-files.md5", "manifest-summary.json", "manifest-summary.md5",
                "extenddb-manifest.json", "extenddb-annex.json"} | {e["key"] for e in doc["data_files"]}
    need(names(root) - {"extenddb-protect.json"} == expected, f"objects {sorted(names(root) ^ expected)}")
    need(read(root, "_started") == b"", "_started is not empty")
    return {"backup": doc["backup_arn"], "items": len(seen), "files": len(raws), "bytes": sum(map(len, raws)),
            "plain_bytes": plain_bytes, "table_size_bytes": t["table_size_bytes"]}


def main(args):
    if len(args) not in (1, 3) or len(args) == 3 and args[1] != "--items":
        print(__doc__, file=sys.stderr)
        return 2
    out = open(args[2], "w", encoding="utf-8") if len(args) == 3 else None
    try:
        result = backup(args[0], out)
    except (Bad, OSError, EOFError, ValueError, KeyError) as e:
        print(f"{args[0]}: {type(e).__name__}: {e}", file=sys.stderr)
        return 1
    finally:
        if out:
            out.close()
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
