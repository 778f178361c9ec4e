// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"errors"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

func item(t testing.TB, json string) ddb.Item {
	t.Helper()
	if json == "" {
		return nil
	}
	it, err := ddb.ParseItem([]byte(json))
	if err != nil {
		t.Fatalf("item %s: %v", json, err)
	}
	return it
}

func value(t testing.TB, json string) ddb.Value {
	t.Helper()
	v, err := ddb.ParseValue([]byte(json))
	if err != nil {
		t.Fatalf("value %s: %v", json, err)
	}
	return v
}

// values of every type, for expressions that need some: :s :n :b :bool :null
// :m :l :ss :ns :bs and a few more.
const someValues = `{":s":{"S":"a"},":s2":{"S":"b"},":n":{"N":"1"},":n2":{"N":"2"},":b":{"B":"YQ=="},":b2":{"B":"Yg=="},
":bool":{"BOOL":true},":null":{"NULL":true},":m":{"M":{}},":l":{"L":[]},":ss":{"SS":["a"]},":ns":{"NS":["1"]},":bs":{"BS":["YQ=="]},
":typeS":{"S":"S"},":type1":{"S":"1"}}`

func someNames() map[string]string {
	return map[string]string{"#a": "a", "#b": "b", "#c": "c", "#i": "[3]", "#4g": "four", "#_": "low", "#status": "status"}
}

func placeholders(t testing.TB) *Placeholders {
	t.Helper()
	return NewPlaceholders(someNames(), item(t, someValues))
}

// bindAs binds text as the expression of a role and returns only the error.
func bindAs(c *Cache, p *Placeholders, role Role, text string) error {
	var err error
	switch role {
	case RoleProjection:
		_, err = c.Projection(p, text)
	case RoleUpdate:
		_, err = c.Update(p, text)
	case RoleSearchCondition:
		_, err = c.SearchCondition(p, text)
	case RoleKeyCondition:
		_, err = c.KeyCondition(p, text)
	default:
		_, err = c.Condition(p, role, text)
	}
	return err
}

// wantError checks the text and the kind of an error; "" wants none.
func wantError(t *testing.T, err error, kind Kind, text string) {
	t.Helper()
	if text == "" {
		if err != nil {
			t.Fatalf("unexpected error: %v", err)
		}
		return
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got error %v, want %q", err, text)
	}
	if e.Error() != text {
		t.Fatalf("got  %s\nwant %s", e.Error(), text)
	}
	if e.Kind != kind {
		t.Fatalf("kind %d, want %d", e.Kind, kind)
	}
}

// textCase is an expression and the error it meets, without its prefix; ""
// is none.
type textCase struct {
	role       Role
	text, want string
}

func checkTexts(t *testing.T, cases []textCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.role.String()+" "+tc.text[:min(len(tc.text), 60)], func(t *testing.T) {
			t.Parallel()
			want := tc.want
			if want != "" {
				want = "Invalid " + tc.role.String() + ": " + want
			}
			wantError(t, bindAs(NewCache(0), placeholders(t), tc.role, tc.text), Invalid, want)
		})
	}
}
