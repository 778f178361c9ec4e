// SPDX-License-Identifier: Apache-2.0

package format

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/extenddb/extenddb/format/ddb"
)

// MaxDataFiles is how many data files a backup may have.
const MaxDataFiles = 1_000_000

// Check returns an ErrManifest unless m says that it lies at ref. Who can write
// below one account must not plant a backup into another.
func (m *Manifest) Check(ref Ref) error {
	a, err := ParseARN(m.BackupARN)
	if err != nil {
		return manifestError(err)
	}
	for _, c := range []struct{ what, says, lies string }{
		{"account", a.Account, ref.Account},
		{"table", a.Table, ref.Table},
		{"backup", a.ID, ref.ID},
	} {
		if c.says != c.lies {
			return fmt.Errorf("%w: backup_arn names %s %s, but it was found below %s", ErrManifest, c.what, c.says, cut(c.lies))
		}
	}
	return nil
}

// check returns an error naming what is out of range, or what disagrees.
func (m *Manifest) check() error {
	arn, err := ParseARN(m.BackupARN)
	if err != nil {
		return within("backup_arn", err)
	}
	if !tableName(m.BackupName) {
		return fmt.Errorf("backup_name %q is no name of 3 to 255 letters, digits, '_', '.' and '-'", cut(m.BackupName))
	}
	if err := checkTime("backup_creation_date_time", m.Created); err != nil {
		return err
	}
	if err := m.Table.check(arn); err != nil {
		return within("source_table", err)
	}
	return m.checkFiles()
}

// Times before 1970 and after the year 5138 come from a broken clock.
func checkTime(name string, seconds float64) error {
	if seconds >= 1 && seconds < 1e11 {
		return nil
	}
	return fmt.Errorf("%s %g is not between 1 and 1e11", name, seconds)
}

type count struct {
	name string
	n    int64
}

func notNegative(counts ...count) error {
	for _, c := range counts {
		if c.n < 0 {
			return fmt.Errorf("%s %d is negative", c.name, c.n)
		}
	}
	return nil
}

func oneOf(name, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s %q is none of %s", name, cut(value), strings.Join(allowed, ", "))
}

func (m *Manifest) checkFiles() error {
	if len(m.Files) > MaxDataFiles {
		return fmt.Errorf("data_files lists %d files, more than %d", len(m.Files), MaxDataFiles)
	}
	var items, size int64
	for i := range m.Files {
		f := &m.Files[i]
		if err := f.check(); err != nil {
			return within(fmt.Sprintf("data_files[%d]", i), err)
		}
		if items > math.MaxInt64-f.Items || size > math.MaxInt64-f.Bytes {
			return errors.New("data_files: the sums of items or bytes are out of range")
		}
		items += f.Items
		size += f.Bytes
	}
	switch {
	case items != m.Table.Items:
		return fmt.Errorf("data_files hold %d items, but item_count is %d", items, m.Table.Items)
	case size != m.SizeBytes:
		return fmt.Errorf("data_files hold %d bytes, but backup_size_bytes is %d", size, m.SizeBytes)
	}
	return m.checkKeysDiffer()
}

func (m *Manifest) checkKeysDiffer() error {
	keys := make([]string, len(m.Files))
	for i, f := range m.Files {
		keys[i] = f.Key
	}
	slices.Sort(keys)
	for i := range keys {
		if i > 0 && keys[i] == keys[i-1] {
			return fmt.Errorf("data_files lists %s twice", keys[i])
		}
	}
	return nil
}

func (f *DataFile) check() error {
	if err := CheckDataFileKey(f.Key); err != nil {
		return err
	}
	if len(f.SHA256) != 64 || !only(f.SHA256, lowerHex) {
		return fmt.Errorf("sha256 %q is not 64 lower-case hexadecimal digits", cut(f.SHA256))
	}
	return notNegative(count{"item_count", f.Items}, count{"bytes", f.Bytes})
}

func (t *SourceTable) check(arn ARN) error {
	account, name, ok := tableARN(t.ARN)
	switch {
	case t.Name != arn.Table:
		return fmt.Errorf("table_name is %s, but backup_arn names table %s", cut(t.Name), arn.Table)
	case !ok:
		return fmt.Errorf("table_arn %q names no table", cut(t.ARN))
	case account != arn.Account:
		return fmt.Errorf("table_arn names account %s, but backup_arn names account %s", cut(account), arn.Account)
	case name != t.Name:
		return fmt.Errorf("table_arn names table %s, but table_name is %s", cut(name), t.Name)
	}
	if err := checkTime("table_creation_date_time", t.Created); err != nil {
		return err
	}
	if err := notNegative(count{"item_count", t.Items}, count{"table_size_bytes", t.SizeBytes}); err != nil {
		return err
	}
	if err := t.checkSettings(); err != nil {
		return err
	}
	return t.checkKeys()
}

func (t *SourceTable) checkSettings() error {
	if err := oneOf("billing_mode", t.BillingMode, ddb.Provisioned, ddb.PayPerRequest); err != nil {
		return err
	}
	if t.TableClass != nil {
		if err := oneOf("table_class", *t.TableClass, ddb.ClassStandard, ddb.ClassInfrequentAccess); err != nil {
			return err
		}
	}
	if t.SSE != nil && t.SSE.SSEType != "" {
		if err := oneOf("sse_specification.SSEType", t.SSE.SSEType, "AES256", "KMS"); err != nil {
			return err
		}
	}
	if err := t.OnDemand.check(); err != nil {
		return within("on_demand_throughput", err)
	}
	return within("provisioned_throughput", t.Throughput.check())
}

// check lets -1 pass: it is how DynamoDB says that there is no maximum.
func (o *OnDemand) check() error {
	if o == nil {
		return nil
	}
	for _, c := range []struct {
		name string
		n    *int64
	}{{"MaxReadRequestUnits", o.MaxReadRequestUnits}, {"MaxWriteRequestUnits", o.MaxWriteRequestUnits}} {
		if c.n != nil && *c.n < -1 {
			return notNegative(count{c.name, *c.n})
		}
	}
	return nil
}

func (t *Throughput) check() error {
	if t == nil {
		return nil
	}
	return notNegative(count{"ReadCapacityUnits", t.ReadCapacityUnits}, count{"WriteCapacityUnits", t.WriteCapacityUnits})
}

// checkKeys looks at the keys of the table and at its indexes.
func (t *SourceTable) checkKeys() error {
	defined := make([]string, len(t.AttributeDefinitions)) // sorted: there may be millions
	for i, a := range t.AttributeDefinitions {
		if err := oneOf("AttributeType", a.AttributeType, "S", "N", "B"); err != nil {
			return within(fmt.Sprintf("attribute_definitions[%d]", i), err)
		}
		defined[i] = a.AttributeName
	}
	slices.Sort(defined)
	if err := within("key_schema", checkSchema(t.KeySchema, defined, 1)); err != nil {
		return err
	}
	for i := range t.GlobalIndexes {
		if err := t.GlobalIndexes[i].check(defined, maxIndexKeys); err != nil {
			return within(fmt.Sprintf("global_secondary_indexes[%d]", i), err)
		}
	}
	for i := range t.LocalIndexes {
		if err := t.LocalIndexes[i].check(defined, 1); err != nil {
			return within(fmt.Sprintf("local_secondary_indexes[%d]", i), err)
		}
	}
	for i := range t.VectorIndexes {
		if err := t.VectorIndexes[i].check(); err != nil {
			return within(fmt.Sprintf("vector_indexes[%d]", i), err)
		}
	}
	return nil
}

// maxIndexKeys is how many HASH, and how many RANGE attributes the key of a
// global index may have.
const maxIndexKeys = 4

// maxKeyName is how many characters the name of a key attribute may have.
const maxKeyName = 255

// checkSchema refuses a key that has not 1 to most HASH attributes, and after
// them up to most RANGE attributes, all of them defined.
func checkSchema(key []ddb.KeySchemaElement, defined []string, most int) error {
	var hashes, ranges int
	for _, k := range key {
		if err := oneOf("KeyType", k.KeyType, ddb.Hash, ddb.Range); err != nil {
			return err
		}
		if k.KeyType == ddb.Hash {
			if ranges > 0 {
				return fmt.Errorf("HASH attribute %q follows a RANGE attribute", cut(k.AttributeName))
			}
			hashes++
		} else {
			ranges++
		}
		if _, ok := slices.BinarySearch(defined, k.AttributeName); !ok {
			return fmt.Errorf("attribute %q is not defined", cut(k.AttributeName))
		}
	}
	if hashes < 1 || hashes > most || ranges > most {
		return fmt.Errorf("%d HASH and %d RANGE attributes make no key", hashes, ranges)
	}
	for i, k := range key {
		if n := utf8.RuneCountInString(k.AttributeName); n < 1 || n > maxKeyName {
			return fmt.Errorf("attribute name %q has not 1 to %d characters", cut(k.AttributeName), maxKeyName)
		}
		if slices.ContainsFunc(key[:i], func(o ddb.KeySchemaElement) bool { return o.AttributeName == k.AttributeName }) {
			return fmt.Errorf("attribute %q is in it twice", k.AttributeName)
		}
	}
	return nil
}

func (x *IndexInfo) check(defined []string, most int) error {
	if err := within("KeySchema", checkSchema(x.KeySchema, defined, most)); err != nil {
		return err
	}
	if err := checkProjection(&x.Projection); err != nil {
		return err
	}
	return within("ProvisionedThroughput", x.Throughput.check())
}

func checkProjection(p *ddb.Projection) error {
	return oneOf("ProjectionType", p.ProjectionType, ddb.ProjectAll, ddb.ProjectKeysOnly, ddb.ProjectInclude)
}

func (x *VectorIndexInfo) check() error {
	err := notNegative(count{"Dimensions", x.Dimensions}, count{"IndexSizeBytes", x.SizeBytes}, count{"ItemCount", x.Items})
	if err == nil && x.Dimensions > math.MaxUint32 {
		err = within("Dimensions", fmt.Errorf("%d is out of range", x.Dimensions))
	}
	if err == nil {
		err = oneOf("DistanceFunction", x.Distance, "COSINE", "EUCLIDEAN", "DOT_PRODUCT")
	}
	for _, s := range x.SearchSchema {
		if err == nil {
			err = oneOf("SearchSchemaElementType", s.ElementType, ddb.Hash, "INLINE_FILTER")
		}
	}
	if err == nil && x.Projection != nil {
		err = checkProjection(x.Projection)
	}
	return err
}
