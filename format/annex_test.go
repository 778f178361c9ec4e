// SPDX-License-Identifier: Apache-2.0

package format

import (
	"reflect"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

func TestAnnex(t *testing.T) {
	t.Parallel()
	a := &Annex{KeyOrdered: true, Writer: "extenddb 0.2.0", Files: []AnnexFile{
		{
			Key: "data/000001.json.gz", Plain: 274, MD5: "nzHTvvfaMx7AAUGlfwCSNg==",
			FirstKey: ddb.Item{"pk": ddb.String("x\u2028"), "a": ddb.Int(1)}, LastKey: ddb.Item{"pk": ddb.Binary([]byte{255}), "a": ddb.Int(2)},
		},
		{Key: "data/000002.json.gz", MD5: "FjvgqIxwymKf1RbbqtrZag==", FirstKey: ddb.Item{}, LastKey: ddb.Item{}},
	}}
	want := `{"annex_version":1,"key_ordered":true,"files":[` +
		`{"key":"data/000001.json.gz","uncompressed_bytes":274,"md5":"nzHTvvfaMx7AAUGlfwCSNg==","first_key":{"a":{"N":"1"},"pk":{"S":"x` + "\u2028" + `"}},"last_key":{"a":{"N":"2"},"pk":{"B":"/w=="}}},` +
		`{"key":"data/000002.json.gz","uncompressed_bytes":0,"md5":"FjvgqIxwymKf1RbbqtrZag==","first_key":{},"last_key":{}}` +
		`],"writer":"extenddb 0.2.0"}`
	if got := string(a.Append([]byte("x"))); got != "x"+want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	for _, text := range []string{want, strings.Replace(want, `{`, ` { "later" : null , `, 1) + "\n"} {
		if got, err := ParseAnnex([]byte(text)); err != nil || !reflect.DeepEqual(got, a) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	none := &Annex{}
	if got := string(none.Append(nil)); got != `{"annex_version":1,"key_ordered":false,"files":[],"writer":""}` {
		t.Error(got)
	}
	if got, err := ParseAnnex(none.Append(nil)); err != nil || !reflect.DeepEqual(got, none) {
		t.Errorf("%+v, %v", got, err)
	}

	for old, changed := range map[string]string{
		`"annex_version":1`:            `"annex_version":2`,
		`"annex_version":1,`:           ``,
		`"key_ordered":true`:           `"key_ordered":1`,
		`"first_key":{"a":{"N":"1"}`:   `"first_key":{"a":{"N":"x"}`,
		`"last_key":{"a":{"N":"2"}`:    `"last_key":{"a":{}`,
		`"first_key":{},`:              ``,
		`"uncompressed_bytes":0`:       `"uncompressed_bytes":-1`,
		`],"writer"`:                   `,"writer"`,
		`{"key":"data/000002.json.gz"`: `{"key":2`,
		`"last_key":{}`:                `"last_key":[]`,
	} {
		bad := strings.Replace(want, old, changed, 1)
		if got, err := ParseAnnex([]byte(bad)); bad == want || err == nil || got != nil || !strings.HasPrefix(err.Error(), "read extenddb-annex.json: ") {
			t.Errorf("%s: %v", changed, err)
		}
	}
}
