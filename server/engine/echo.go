// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
)

// maxEcho bounds how many bytes of a request a message repeats.
const maxEcho = 16 << 10

// echoRequestItems prints the RequestItems of a BatchWriteItem the way the
// service's constraint messages do, which is how its Java code prints objects.
// What is longer than maxEcho is cut off.
func echoRequestItems(m map[string][]api.WriteRequest) string {
	var e echo
	e.open("{")
	for _, table := range slices.Sorted(maps.Keys(m)) {
		e.next(table + "=")
		e.open("[")
		for i := range m[table] {
			if e.Len() >= maxEcho {
				break
			}
			e.next("")
			e.writeRequest(&m[table][i])
		}
		e.close("]")
	}
	e.close("}")
	return e.String()
}

// echo builds the text of a request.
type echo struct {
	strings.Builder
	first bool
}

// text appends s, as far as there is room.
func (e *echo) text(s string) { e.WriteString(s[:min(len(s), max(maxEcho-e.Len(), 0))]) }

// open and close bracket a list of elements; brackets are never cut off.
func (e *echo) open(s string)  { e.WriteString(s); e.first = true }
func (e *echo) close(s string) { e.WriteString(s); e.first = false }

// next begins an element.
func (e *echo) next(name string) {
	if !e.first {
		e.text(", ")
	}
	e.first = false
	e.text(name)
}

func (e *echo) writeRequest(r *api.WriteRequest) {
	e.text("WriteRequest(putRequest=")
	if r.PutRequest == nil {
		e.text("null")
	} else {
		e.text("PutRequest(item=")
		e.item(r.PutRequest.Item.Item)
		e.text(", workloadProfileName=null)")
	}
	e.text(", deleteRequest=")
	if r.DeleteRequest == nil {
		e.text("null")
	} else {
		e.text("DeleteRequest(key=")
		e.item(r.DeleteRequest.Key.Item)
		e.text(")")
	}
	e.text(")")
}

func (e *echo) item(it ddb.Item) {
	e.open("{")
	for _, name := range slices.Sorted(maps.Keys(it)) {
		e.next(name + "=")
		e.value(it[name])
	}
	e.close("}")
}

// echoMembers are the members of an attribute value in the order they are
// printed; those without a kind are never set.
var echoMembers = [...]struct {
	name string
	kind ddb.Kind
}{
	{"s", ddb.KindS}, {"n", ddb.KindN}, {"b", ddb.KindB}, {name: "iNT"}, {name: "dECIMAL"}, {name: "dOUBLE"},
	{"sS", ddb.KindSS}, {"nS", ddb.KindNS}, {"bS", ddb.KindBS}, {name: "iNTSET"}, {name: "dECIMALSET"}, {name: "dOUBLESET"},
	{"m", ddb.KindM}, {"l", ddb.KindL}, {"nULL", ddb.KindNULL}, {"bOOL", ddb.KindBOOL},
}

func (e *echo) value(v ddb.Value) {
	if e.Len() >= maxEcho {
		return
	}
	e.text("AttributeValue(")
	for i, m := range echoMembers {
		if i > 0 {
			e.text(", ")
		}
		e.text(m.name + "=")
		if m.kind == 0 || m.kind != v.Kind() {
			e.text("null")
			continue
		}
		e.payload(v)
	}
	e.text(")")
}

func (e *echo) payload(v ddb.Value) {
	switch v.Kind() {
	case ddb.KindM:
		e.item(v.Map())
	case ddb.KindL:
		e.open("[")
		for _, el := range v.List() {
			e.next("")
			e.value(el)
		}
		e.close("]")
	case ddb.KindSS, ddb.KindNS, ddb.KindBS:
		e.open("[")
		for _, s := range v.Set() {
			e.next("")
			e.scalar(v.Kind().Element(), s)
		}
		e.close("]")
	case ddb.KindBOOL:
		e.text(strconv.FormatBool(v.Bool()))
	case ddb.KindNULL:
		e.text("true")
	default:
		e.scalar(v.Kind(), v.Str())
	}
}

func (e *echo) scalar(k ddb.Kind, s string) {
	if k == ddb.KindB {
		n := strconv.Itoa(len(s))
		s = "java.nio.HeapByteBuffer[pos=0 lim=" + n + " cap=" + n + "]"
	}
	e.text(s)
}
