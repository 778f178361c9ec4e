// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

const (
	tableARN  = "arn:aws:dynamodb:us-east-1:000000000000:table/"
	missingIn = "ResourceNotFoundException: Requested resource not found: ResourceArn: "
)

// onTags writes a request on the tags of table "hash".
func onTags(more string) string { return `{"ResourceArn":"` + tableARN + `hash"` + more + `}` }

// tag writes a Tags member of keys and values.
func tag(kv ...string) string {
	var list []string
	for i := 0; i < len(kv); i += 2 {
		list = append(list, `{"Key":"`+kv[i]+`","Value":"`+kv[i+1]+`"}`)
	}
	return `,"Tags":[` + strings.Join(list, ",") + `]`
}

// tagged checks the tags of a table.
func (r *rig) tagged(kv ...string) {
	r.Helper()
	r.want("ListTagsOfResource", onTags(""), "{"+strings.TrimPrefix(tag(kv...), ",")+"}")
}

func TestTags(t *testing.T) {
	t.Parallel()
	onEachStore(t, writeTables()[:1], func(r *rig) {
		r.tagged()
		r.want("TagResource", onTags(tag("b", "2", "a", "1", "B", "")), ``)
		r.tagged("B", "", "a", "1", "b", "2")
		r.want("TagResource", onTags(tag("a", "x", "c", "3")), ``)
		r.tagged("B", "", "a", "x", "b", "2", "c", "3")
		r.want("UntagResource", onTags(`,"TagKeys":["b","none","b"]`), ``)
		r.tagged("B", "", "a", "x", "c", "3")
		r.want("ListTagsOfResource", onTags(`,"NextToken":"nonsense"`), `{`+tag("B", "", "a", "x", "c", "3")[1:]+`}`)
		// what changes nothing makes no new version of the table
		before := r.table("hash").Version
		r.want("TagResource", onTags(tag("c", "3")), ``)
		r.want("UntagResource", onTags(`,"TagKeys":["none"]`), ``)
		if now := r.table("hash").Version; now != before {
			r.Errorf("version %d became %d", before, now)
		}
		// other changes keep them, and no description shows them
		body := r.must("UpdateTable", `{"TableName":"hash","DeletionProtectionEnabled":true}`) + r.must("DescribeTable", `{"TableName":"hash"}`)
		if strings.Contains(body, "Tags") {
			r.Errorf("description with tags: %s", body)
		}
		r.tagged("B", "", "a", "x", "c", "3")
		r.want("UntagResource", onTags(`,"TagKeys":["a","B","c"]`), ``)
		r.tagged()
		if tags := r.table("hash").Def.Tags; tags != nil {
			r.Errorf("left over: %v", tags)
		}
	})
}

func TestCreateTableWithTags(t *testing.T) {
	t.Parallel()
	create := func(more string) string {
		return `{"TableName":"hash","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],` +
			`"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}]` + more + `}`
	}
	onEachStore(t, nil, func(r *rig) {
		r.want("CreateTable", create(tag("aws:x", "1")), ve+"Tag Key cannot be prefixed with aws:, Key: aws:x")
		r.want("CreateTable", create(tag("a", "1", "a", "2")), ve+"Duplicate Tag Keys provided as input: Duplicate Tag Key found a")
		r.want("DescribeTable", `{"TableName":"hash"}`, "ResourceNotFoundException: Requested resource not found: Table: hash not found")
		if body := r.must("CreateTable", create(tag("b", "2", "a", "1"))); strings.Contains(body, "Tags") {
			r.Errorf("description with tags: %s", body)
		}
		r.tagged("a", "1", "b", "2")
		r.must("CreateTable", strings.Replace(create(`,"Tags":[]`), "hash", "untagged", 1))
		r.want("ListTagsOfResource", `{"ResourceArn":"`+tableARN+`untagged"}`, `{"Tags":[]}`)
	})
}

// TestTagTexts checks what is refused in tags and keys of tags.
func TestTagTexts(t *testing.T) {
	t.Parallel()
	r := newRig(t, testStores()["memory"](t), writeTables()[:1]...)
	badKey := func(k string) string { return ve + "The Tag Key provided is invalid, Key: " + k }
	badValue := func(v string) string { return ve + "The Tag Value provided is invalid, Value: " + v }
	k128, v256 := strings.Repeat("ä", 128), strings.Repeat("字", 256)
	for _, c := range []struct{ tags, want string }{
		{`,"Tags":[]`, ve + "Atleast one Tag needs to be provided as Input."},
		{``, ve1 + "Value null at 'tags' failed to satisfy constraint: Member must not be null"},
		{`,"Tags":[{"Value":"v"}]`, badKey("null")},
		{`,"Tags":[{"Key":"k"}]`, badValue("null")},
		{tag("", "v"), badKey("")},
		{tag(k128+"x", "v"), badKey(k128 + "x")},
		{tag(k128, v256), ``},
		{tag("k", v256+"x"), badValue(v256 + "x")},
		{tag("a#b", "v"), badKey("a#b")},
		{tag("k", "a*b"), badValue("a*b")},
		{tag("k", `a\tb`), badValue("a\tb")},
		{tag(` \u00a0\u2003\u3000Жש٣ 9+-=._:/@`, `  +-=._:/@`), ``},
		{tag("aws:k", "v"), ve + "Tag Key cannot be prefixed with aws:, Key: aws:k"},
		{tag("AwS:", "v"), ve + "Tag Key cannot be prefixed with aws:, Key: AwS:"},
		{tag("aws", "v", "xaws:", "v"), ``},
		{tag("a", "1", "b", "2", "a", "1"), ve + "Duplicate Tag Keys provided as input: Duplicate Tag Key found a"},
		// the first tag counts, in it the key before the value
		{tag("#", "#"), badKey("#")},
		{tag("a", "#", "#", "v"), badValue("#")},
		{tag("aws:a", "#"), badValue("#")},
	} {
		r.want("TagResource", onTags(c.tags), c.want)
	}
	for _, c := range []struct{ keys, want string }{
		{`,"TagKeys":[]`, ve + "Atleast one Tag Key needs to be provided as Input."},
		{``, ve1 + "Value null at 'tagKeys' failed to satisfy constraint: Member must not be null"},
		{`,"TagKeys":["a",""]`, badKey("")},
		{`,"TagKeys":["` + k128 + `x"]`, badKey(k128 + "x")},
		{`,"TagKeys":["AWS:x"]`, ve + "Tag Key cannot be prefixed with aws:, Key: AWS:x"},
		{`,"TagKeys":["x"` + strings.Repeat(`,"x"`, 50) + `]`, ve + tooManyTags},
	} {
		r.want("UntagResource", onTags(c.keys), c.want)
	}
}

func TestTooManyTags(t *testing.T) {
	t.Parallel()
	var fifty []string
	for i := range 50 {
		fifty = append(fifty, fmt.Sprintf("k%02d", i), "v")
	}
	onEachStore(t, writeTables()[:1], func(r *rig) {
		r.want("TagResource", onTags(tag(append(fifty, "more", "v")...)), ve+tooManyTags)
		r.want("TagResource", onTags(tag(fifty...)), ``)
		r.tagged(fifty...)
		r.want("TagResource", onTags(tag("more", "v")), ve+tooManyTags)
		r.want("TagResource", onTags(tag("k00", "w", "more", "v")), ve+tooManyTags) // all or nothing
		r.tagged(fifty...)
		r.want("TagResource", onTags(tag("k00", "v", "k49", "v")), ``)
	})
}

// TestTagARNs checks the forms of ResourceArn, which the three operations read
// alike.
func TestTagARNs(t *testing.T) {
	t.Parallel()
	r := newRig(t, testStores()["memory"](t), writeTables()[:1]...)
	const badInput = ve + "Invalid TableArn: Invalid ResourceArn provided as input "
	for arn, want := range map[string]string{
		"":                        ve + "Invalid TableArn",
		"hash":                    ve + ivp + "ARNs must start with 'arn:': hash",
		"not-a-valid-arn":         ve + ivp + "ARNs must start with 'arn:': not-a-valid-arn",
		"arn:aws:dynamodb":        badInput + "arn:aws:dynamodb",
		"arn:aws:s3:::bucket":     ve + ivp + "Provided Arn is not a DynamoDB resource arn: arn:aws:s3:::bucket",
		tableARN + "hash/index/x": ve + ivp + "Invalid resource arn provided, only table or stream is accepted. Provided resource arn: " + tableARN + "hash/index/x",
		tableARN + "hash/backup/01489602797149-73d8d5bc": ve + ivp + "Provided Arn is not a DynamoDB resource arn: " + tableARN + "hash/backup/01489602797149-73d8d5bc",
		tableARN + "hash/stream/2026":                    missingIn + tableARN + "hash/stream/2026 not found",
		tableARN + "x!":                                  badInput + tableARN + "x!",
		tableARN:                                         badInput + tableARN,
		"arn:aws:dynamodb:eu-west-1:000000000000:table/hash":    badInput + "arn:aws:dynamodb:eu-west-1:000000000000:table/hash",
		"arn:aws-cn:dynamodb:us-east-1:000000000000:table/hash": badInput + "arn:aws-cn:dynamodb:us-east-1:000000000000:table/hash",
		"arn:aws:dynamodb:us-east-1:123456789012:table/hash":    "AccessDeniedException: Access is denied",
	} {
		for _, op := range []string{"TagResource", "UntagResource", "ListTagsOfResource"} {
			r.want(op, `{"ResourceArn":"`+arn+`","Tags":[],"TagKeys":[]}`, want)
		}
	}
	const null = "Value null at 'resourceArn' failed to satisfy constraint: Member must not be null"
	r.want("TagResource", `{}`, ve+"2 validation errors detected: "+null+"; Value null at 'tags' failed to satisfy constraint: Member must not be null")
	r.want("UntagResource", `{}`, ve+"2 validation errors detected: "+null+"; Value null at 'tagKeys' failed to satisfy constraint: Member must not be null")
	r.want("ListTagsOfResource", `{}`, ve1+null)
	// names tell upper from lower case
	for _, name := range []string{"none", "HASH"} {
		r.want("TagResource", `{"ResourceArn":"`+tableARN+name+`"`+tag("a", "b")+`}`, missingIn+tableARN+name+" not found")
		r.want("UntagResource", `{"ResourceArn":"`+tableARN+name+`","TagKeys":["a"]}`, missingIn+tableARN+name+" not found")
		r.want("ListTagsOfResource", `{"ResourceArn":"`+tableARN+name+`"}`,
			"AccessDeniedException: User: arn:aws:iam::000000000000:root is not authorized to perform: dynamodb:ListTagsOfResource on resource: "+tableARN+name)
	}
}

// TestTagsOfTablesThatComeAndGo: one that is being loaded has no tags and gets
// none; one that is being dropped is as good as gone.
func TestTagsOfTablesThatComeAndGo(t *testing.T) {
	t.Parallel()
	onEachStore(t, nil, func(r *rig) {
		l, err := r.store.Load(r.Context(), auth.DefaultAccount, writeTables()[0], r.clock.Now())
		if err != nil {
			r.Fatal(err)
		}
		defer l.Abort() //nolint:errcheck // does nothing after Finish
		r.want("TagResource", onTags(tag("a", "1")), "ResourceInUseException: Attempt to change a resource which is still in use: Table is being created: hash")
		r.want("UntagResource", onTags(`,"TagKeys":["a"]`), ``)
		r.tagged()
		if err := l.Finish(r.Context(), nil); err != nil {
			r.Fatal(err)
		}
		r.want("TagResource", onTags(tag("a", "1")), ``)
		r.must("DeleteTable", `{"TableName":"hash"}`)
		gone := missingIn + tableARN + "hash not found"
		r.want("TagResource", onTags(tag("a", "1")), gone)
		r.want("UntagResource", onTags(`,"TagKeys":["a"]`), gone)
		r.want("ListTagsOfResource", onTags(""), gone)
	})
}

// TestTagsAtOnce: of many writers of other tags none undoes another's.
func TestTagsAtOnce(t *testing.T) {
	t.Parallel()
	onEachStore(t, writeTables()[:1], func(r *rig) {
		var wg sync.WaitGroup
		var want []string
		for i := range 20 {
			key := fmt.Sprintf("k%02d", i)
			want = append(want, key, "v")
			wg.Go(func() {
				r.want("TagResource", onTags(tag(key, "v", "x"+key, "v")), ``)
				r.want("UntagResource", onTags(`,"TagKeys":["x`+key+`"]`), ``)
			})
		}
		wg.Wait()
		r.tagged(want...)
	})
}

func TestTagFaults(t *testing.T) {
	t.Parallel()
	f := storagetest.NewFaulty(testStores()["memory"](t))
	r := newRig(t, f, writeTables()[:1]...)
	for _, c := range [][3]string{
		{"UpdateTable", "TagResource", onTags(tag("a", "b"))},
		{"UpdateTable", "UntagResource", onTags(`,"TagKeys":["a"]`)},
		{"Describe", "ListTagsOfResource", onTags("")},
	} {
		f.Inject(storagetest.Fault{Method: c[0], Err: storage.ErrUnavailable})
		r.want(c[1], c[2], unavailable)
	}
}
