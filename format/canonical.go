// SPDX-License-Identifier: Apache-2.0

package format

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/extenddb/extenddb/format/ddb"
)

// Canonical returns the text that manifest_sha256 is the digest of: every
// member in its place, compact, with an empty manifest_sha256. It fails when a
// string is not UTF-8 or a time has no fixed notation.
func (m *Manifest) Canonical() ([]byte, error) {
	var e emitter
	e.manifest(m)
	return e.buf, e.err
}

// digest is the hexadecimal SHA-256 of the canonical form, which it never
// holds as a whole: the form may be as large as the limit.
func (m *Manifest) digest() string {
	e := emitter{hash: sha256.New(), buf: make([]byte, 0, 2*flushAt)}
	e.manifest(m)
	e.hash.Write(e.buf)
	return hex.EncodeToString(e.hash.Sum(nil))
}

const (
	flushAt = 8 << 10
	piece   = 1 << 10 // bytes of a string escaped at once
)

// emitter writes the canonical form. encoding/json cannot: it omits the
// fraction of whole floats and escapes more than it must.
type emitter struct {
	buf   []byte
	hash  hash.Hash // nil: buf keeps everything
	begun bool      // the object or array has a member
	at    string    // the member
	err   error
}

func (e *emitter) flush() {
	if e.hash != nil && len(e.buf) > flushAt {
		e.hash.Write(e.buf)
		e.buf = e.buf[:0]
	}
}

func (e *emitter) fail(reason string) {
	if e.err == nil {
		e.err = fmt.Errorf("%w: %s %s", ErrManifest, e.at, reason)
	}
}

func (e *emitter) open(bracket byte) {
	e.flush()
	e.buf = append(e.buf, bracket)
	e.begun = false
}

func (e *emitter) close(bracket byte) {
	e.buf = append(e.buf, bracket)
	e.begun = true
}

// element begins an element of an array.
func (e *emitter) element() {
	if e.begun {
		e.buf = append(e.buf, ',')
	}
	e.begun = true
}

// member begins a member of an object.
func (e *emitter) member(name string) {
	e.element()
	e.at = name
	e.buf = append(e.buf, '"')
	e.buf = append(e.buf, name...)
	e.buf = append(e.buf, '"', ':')
}

func (e *emitter) text(name, s string) {
	e.member(name)
	e.string(s)
}

func (e *emitter) string(s string) {
	if !utf8.ValidString(s) {
		e.fail("is not valid UTF-8")
	}
	e.buf = append(e.buf, '"')
	for len(s) > 0 {
		n := min(len(s), piece)
		for n < len(s) && n > piece-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		quote := len(e.buf)
		e.buf = ddb.AppendString(e.buf, s[:n])
		e.buf = slices.Delete(e.buf[:len(e.buf)-1], quote, quote+1)
		e.flush()
		s = s[n:]
	}
	e.buf = append(e.buf, '"')
}

// optional is text, left out when empty.
func (e *emitter) optional(name, s string) {
	if s != "" {
		e.text(name, s)
	}
}

func (e *emitter) int(name string, v int64) {
	e.member(name)
	e.buf = strconv.AppendInt(e.buf, v, 10)
}

// float writes the shortest digits that read back as v, with a fraction.
func (e *emitter) float(name string, v float64) {
	e.member(name)
	if abs := math.Abs(v); !(abs == 0 || abs >= 1e-5 && abs < 1e16) {
		e.fail("is out of range")
	}
	e.buf = appendFloat(e.buf, v)
}

func appendFloat(dst []byte, v float64) []byte {
	from := len(dst)
	dst = strconv.AppendFloat(dst, v, 'f', -1, 64)
	if !slices.Contains(dst[from:], '.') {
		dst = append(dst, ".0"...)
	}
	return dst
}

func emitList[T any](e *emitter, name string, all []T, one func(*emitter, *T)) {
	e.member(name)
	e.open('[')
	for i := range all {
		e.element()
		one(e, &all[i])
	}
	e.close(']')
}

func (e *emitter) manifest(m *Manifest) {
	e.open('{')
	e.int("format_version", m.FormatVersion)
	e.text("backup_arn", m.BackupARN)
	e.text("backup_name", m.BackupName)
	e.float("backup_creation_date_time", m.Created)
	e.int("backup_size_bytes", m.SizeBytes)
	e.text("source_backend", m.SourceBackend)
	e.text("source_extenddb_version", m.SourceVersion)
	e.member("snapshot")
	e.open('{')
	e.text("kind", m.Snapshot.Kind)
	e.text("marker", m.Snapshot.Marker)
	e.close('}')
	e.member("source_table")
	e.table(&m.Table)
	emitList(e, "data_files", m.Files, (*emitter).dataFile)
	e.text("manifest_sha256", "")
	e.close('}')
}

func (e *emitter) dataFile(f *DataFile) {
	e.open('{')
	e.text("key", f.Key)
	e.int("item_count", f.Items)
	e.text("sha256", f.SHA256)
	e.int("bytes", f.Bytes)
	e.close('}')
}

func (e *emitter) table(t *SourceTable) {
	e.open('{')
	e.text("table_name", t.Name)
	e.text("table_id", t.ID)
	e.text("table_arn", t.ARN)
	e.float("table_creation_date_time", t.Created)
	emitList(e, "key_schema", t.KeySchema, (*emitter).keyElement)
	emitList(e, "attribute_definitions", t.AttributeDefinitions, (*emitter).attribute)
	e.text("billing_mode", t.BillingMode)
	e.throughput("provisioned_throughput", t.Throughput)
	if o := t.OnDemand; o != nil {
		e.member("on_demand_throughput")
		e.open('{')
		e.nullable("MaxReadRequestUnits", o.MaxReadRequestUnits)
		e.nullable("MaxWriteRequestUnits", o.MaxWriteRequestUnits)
		e.close('}')
	}
	if t.TableClass != nil {
		e.text("table_class", *t.TableClass)
	}
	if s := t.SSE; s != nil {
		e.member("sse_specification")
		e.open('{')
		e.text("Status", s.Status)
		e.optional("SSEType", s.SSEType)
		e.optional("KMSMasterKeyArn", s.KMSMasterKeyArn)
		e.close('}')
	}
	if t.GlobalIndexes != nil {
		emitList(e, "global_secondary_indexes", t.GlobalIndexes, (*emitter).index)
	}
	if t.LocalIndexes != nil {
		emitList(e, "local_secondary_indexes", t.LocalIndexes, (*emitter).index)
	}
	if t.VectorIndexes != nil {
		emitList(e, "vector_indexes", t.VectorIndexes, (*emitter).vectorIndex)
	}
	e.int("item_count", t.Items)
	e.int("table_size_bytes", t.SizeBytes)
	e.close('}')
}

func (e *emitter) nullable(name string, v *int64) {
	if v != nil {
		e.int(name, *v)
		return
	}
	e.member(name)
	e.buf = append(e.buf, "null"...)
}

func (e *emitter) throughput(name string, t *Throughput) {
	if t == nil {
		return
	}
	e.member(name)
	e.open('{')
	e.int("ReadCapacityUnits", t.ReadCapacityUnits)
	e.int("WriteCapacityUnits", t.WriteCapacityUnits)
	e.close('}')
}

func (e *emitter) keyElement(k *ddb.KeySchemaElement) {
	e.open('{')
	e.text("AttributeName", k.AttributeName)
	e.text("KeyType", k.KeyType)
	e.close('}')
}

func (e *emitter) attribute(a *ddb.AttributeDefinition) {
	e.open('{')
	e.text("AttributeName", a.AttributeName)
	e.text("AttributeType", a.AttributeType)
	e.close('}')
}

func (e *emitter) projection(p *ddb.Projection) {
	e.member("Projection")
	e.open('{')
	e.text("ProjectionType", p.ProjectionType)
	if p.NonKeyAttributes != nil {
		emitList(e, "NonKeyAttributes", p.NonKeyAttributes, func(e *emitter, s *string) { e.string(*s) })
	}
	e.close('}')
}

func (e *emitter) index(x *IndexInfo) {
	e.open('{')
	e.text("IndexName", x.IndexName)
	emitList(e, "KeySchema", x.KeySchema, (*emitter).keyElement)
	e.projection(&x.Projection)
	e.throughput("ProvisionedThroughput", x.Throughput)
	e.close('}')
}

func (e *emitter) vectorIndex(x *VectorIndexInfo) {
	e.open('{')
	e.text("IndexName", x.IndexName)
	e.member("VectorAttribute")
	e.open('{')
	e.text("AttributeName", x.VectorAttribute)
	e.close('}')
	e.int("Dimensions", x.Dimensions)
	if x.SearchSchema != nil {
		emitList(e, "SearchSchema", x.SearchSchema, (*emitter).searchElement)
	}
	e.text("DistanceFunction", x.Distance)
	e.text("IndexStatus", x.Status)
	if x.Backfilling != nil {
		e.member("Backfilling")
		e.buf = strconv.AppendBool(e.buf, *x.Backfilling)
	}
	e.int("IndexSizeBytes", x.SizeBytes)
	e.int("ItemCount", x.Items)
	e.text("IndexArn", x.ARN)
	if x.Projection != nil {
		e.projection(x.Projection)
	}
	e.close('}')
}

func (e *emitter) searchElement(s *SearchElement) {
	e.open('{')
	e.text("AttributeName", s.AttributeName)
	e.text("SearchSchemaElementType", s.ElementType)
	e.close('}')
}
