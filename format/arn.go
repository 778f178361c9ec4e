// SPDX-License-Identifier: Apache-2.0

package format

import (
	"fmt"
	"strings"
)

// ARN is the name of a backup:
//
//	arn:aws:dynamodb:<region>:<account>:table/<table>/backup/<id>
type ARN struct {
	Partition string // "aws" when empty; "aws-cn" and "aws-us-gov" are read, never written
	Region    string
	Account   string // 12 digits
	Table     string
	ID        string
}

// ParseARN reads the name of a backup. The error is "invalid backup ARN: " and
// s. What it accepts makes a Ref that is safe as a path.
func ParseARN(s string) (ARN, error) {
	bad := fmt.Errorf("invalid backup ARN: %s", cut(s))
	rest, ok := strings.CutPrefix(s, "arn:")
	if !ok {
		return ARN{}, bad
	}
	partition, rest, _ := strings.Cut(rest, ":")
	rest, ok = strings.CutPrefix(rest, "dynamodb:")
	if !ok || partition != "aws" && partition != "aws-cn" && partition != "aws-us-gov" {
		return ARN{}, bad
	}
	region, rest, _ := strings.Cut(rest, ":")
	account, rest, _ := strings.Cut(rest, ":")
	rest, ok = strings.CutPrefix(rest, "table/")
	table, id, _ := strings.Cut(rest, "/backup/") // none: no id, refused below
	a := ARN{Partition: partition, Region: region, Account: account, Table: table, ID: id}
	if !ok || region == "" || strings.Contains(region, "/") || !a.Ref().valid() {
		return ARN{}, bad
	}
	return a, nil
}

// String is what ParseARN reads.
func (a ARN) String() string {
	partition := a.Partition
	if partition == "" {
		partition = "aws"
	}
	return "arn:" + partition + ":dynamodb:" + a.Region + ":" + a.Account + ":table/" + a.Table + "/backup/" + a.ID
}

// Ref is where a backup of that name lies within a store.
func (a ARN) Ref() Ref { return Ref{Account: a.Account, Table: a.Table, ID: a.ID} }

// tableARN splits the name of a table,
// arn:<partition>:dynamodb:<region>:<account>:table/<name>.
func tableARN(s string) (account, name string, ok bool) {
	parts := strings.SplitN(s, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" || parts[2] != "dynamodb" {
		return "", "", false
	}
	name, ok = strings.CutPrefix(parts[5], "table/")
	return parts[4], name, ok
}

// cut shortens what an error quotes of its input, which may be megabytes long.
func cut(s string) string {
	const most = 1024
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
