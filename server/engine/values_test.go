// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

// nested returns a value whose scalar is at the given level.
func nested(level int) string {
	return strings.Repeat(`{"L":[`, level-1) + `{"S":"x"}` + strings.Repeat(`]}`, level-1)
}

func TestValueTexts(t *testing.T) {
	t.Parallel()
	const (
		invalid   = "One or more parameter values were invalid: "
		numeric   = "The parameter cannot be converted to a numeric value"
		digits    = "Attempting to store more than 38 significant digits in a Number"
		overflow  = "Number overflow. Attempting to store a number with magnitude larger than supported range"
		underflow = "Number underflow. Attempting to store a number with magnitude smaller than supported range"
		empty     = "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
		several   = "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes"
	)
	cases := []struct {
		name, value, current, older string // older "": as current
	}{
		{"no number", `{"N":"abc"}`, numeric + ": abc", ""},
		{"empty number", `{"N":""}`, numeric + ": ", numeric},
		{"blank number", `{"N":" 5"}`, numeric + ":  5", ""},
		{"39 digits", `{"N":"1` + strings.Repeat("1", 38) + `"}`, digits, ""},
		{"39 digits in a set", `{"NS":["1` + strings.Repeat("1", 38) + `"]}`, digits, ""},
		{"too large", `{"N":"1e126"}`, overflow, ""},
		{"too large and negative", `{"N":"-1e126"}`, overflow, ""},
		{"too large zero", `{"N":"0e126"}`, overflow, ""},
		{"too small", `{"N":"1e-131"}`, underflow, ""},
		{"32-bit exponent that wraps", `{"N":"1e2147483647"}`, overflow, underflow},
		{"32-bit exponent that does not wrap", `{"N":"1e2147483646"}`, overflow, ""},
		{"32-bit exponent that wraps with two digits", `{"N":"12e2147483646"}`, overflow, underflow},
		{"beyond 32 bits", `{"N":"1e2147483648"}`, overflow, numeric + ": 1e2147483648"},
		{"beyond 32 bits below", `{"N":"1.5e-2147483648"}`, underflow, numeric + ": 1.5e-2147483648"},
		{"scale beyond 32 bits", `{"N":"1.5e-2147483647"}`, underflow, numeric + ": 1.5e-2147483647"},
		{"beyond 64 bits", `{"N":"1e99999999999999999999"}`, numeric + ": 1e99999999999999999999", ""},
		{"empty SS", `{"SS":[]}`, invalid + "An string set  may not be empty", ""},
		{"empty NS", `{"NS":[]}`, invalid + "An number set  may not be empty", ""},
		{"empty BS", `{"BS":[]}`, invalid + "Binary sets should not be empty", ""},
		{"empty set in a map", `{"M":{"a":{"SS":[]}}}`, invalid + "An string set  may not be empty", ""},
		{"duplicate in SS", `{"SS":["b","a","b"]}`, invalid + `Input collection ["a", "b", "b"] contains duplicates.`,
			invalid + `Input collection [b, a, b] contains duplicates.`},
		{"duplicate in SS before others", `{"SS":["c","a","a","z","b","c"]}`,
			invalid + `Input collection ["a", "c", "a", "z", "b", "c"] contains duplicates.`,
			invalid + `Input collection [c, a, a, z, b, c] contains duplicates.`},
		{"duplicate in BS", `{"BS":["/w==","AA==","AA=="]}`, invalid + `Input collection ["AA==","/w==","AA=="]of type BS contains duplicates.`,
			invalid + `Input collection [/w==, AA==, AA==]of type BS contains duplicates.`},
		{"duplicate in NS", `{"NS":["1","1.0"]}`, invalid + "Input collection contains duplicates.", "Input collection contains duplicates"},
		{"false NULL", `{"NULL":false}`, invalid + "Null attribute value types must have the value of true", ""},
		{"no type", `{}`, empty, ""},
		{"unknown type", `{"X":"1"}`, empty, ""},
		{"two types", `{"S":"a","N":"1"}`, several, ""},
		{"33 levels", nested(33), tooDeep, ""},
		{"no name", `{"M":{"":{"S":"a"}}}`, "Empty attribute name", ""},
		{"long name", `{"M":{"` + strings.Repeat("n", 65536) + `":{"S":"a"}}}`, "Attribute name is too large, must be less than 65536 bytes", ""},
	}
	r := newRig(t, testStores()["memory"](t), testTable("hash", "pk:S"))
	for _, c := range cases {
		if c.older == "" {
			c.older = c.current
		}
		v, err := ddb.ParseValue([]byte(c.value))
		bad, ok := err.(*ddb.ValueError)
		if !ok {
			t.Errorf("%s: parsed as %v, %v", c.name, v, err)
			continue
		}
		const code = "ValidationException: "
		if got := bare.badValue(bad).Error(); got != code+c.current {
			t.Errorf("%s, bare: %s", c.name, got)
		}
		ve1, plain := code+"1 validation error detected: "+c.current, code+c.older
		// The table need not exist: the request alone is wrong.
		r.want("PutItem", `{"TableName":"none","Item":{"pk":{"S":"a"},"v":`+c.value+`}}`, ve1)
		r.want("UpdateItem", `{"TableName":"none","Key":{"pk":`+c.value+`}}`, ve1)
		r.want("DeleteItem", `{"TableName":"none","Key":{"pk":`+c.value+`}}`, ve1)
		r.want("UpdateItem", `{"TableName":"none","Key":{"pk":{"S":"a"}},"AttributeUpdates":{"v":{"Value":`+c.value+`}}}`, ve1)
		r.want("PutItem", `{"TableName":"none","Item":{"pk":{"S":"a"}},"Expected":{"v":{"Value":`+c.value+`}}}`, ve1)
		r.want("DeleteItem", `{"TableName":"none","Key":{"pk":{"S":"a"}},"Expected":{"v":{"ComparisonOperator":"EQ","AttributeValueList":[`+c.value+`]}}}`, ve1)
		r.want("UpdateItem", `{"TableName":"none","Key":{"pk":{"S":"a"}},"UpdateExpression":"SET v = :v","ExpressionAttributeValues":{":v":`+c.value+`}}`, ve1)
		r.want("BatchWriteItem", `{"RequestItems":{"none":[{"PutRequest":{"Item":{"pk":{"S":"a"},"v":`+c.value+`}}}]}}`, plain)
		r.want("BatchWriteItem", `{"RequestItems":{"none":[{"DeleteRequest":{"Key":{"pk":`+c.value+`}}}]}}`, plain)
	}
}

func TestBadExpressionValue(t *testing.T) {
	t.Parallel()
	bad := &ddb.ValueError{Problem: ddb.NullIsFalse}
	const text = "One or more parameter values were invalid: Null attribute value types must have the value of true"
	for l, want := range map[layer]string{
		enveloped: "1 validation error detected: " + text,
		bare:      text,
		older:     "ExpressionAttributeValues contains invalid value: " + text + " for key :v",
	} {
		if got := l.badExpressionValue(":v", bad).Message; got != want {
			t.Errorf("layer %d: %s", l, got)
		}
	}
}
