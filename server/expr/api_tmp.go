// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"iter"

	"github.com/extenddb/extenddb/format/ddb"
)

// Cache keeps the syntax trees of recent expressions. It is safe for
// concurrent use and bounded.
type Cache struct{}

// NewCache returns a cache of about n expressions.
func NewCache(n int) *Cache { return &Cache{} }

// Condition parses and binds a condition (RoleCondition) or filter expression (RoleFilter).
func (c *Cache) Condition(p *Placeholders, role Role, text string) (*Condition, error) { return nil, nil }

// Projection parses and binds a projection expression.
func (c *Cache) Projection(p *Placeholders, text string) (*Projection, error) { return nil, nil }

// Update parses and binds an update expression.
func (c *Cache) Update(p *Placeholders, text string) (*Update, error) { return nil, nil }

// KeyCondition parses and binds a key condition; the rules peculiar to key
// conditions are checked by Terms, because the service checks them after all
// other expressions.
func (c *Cache) KeyCondition(p *Placeholders, text string) (*KeyCondition, error) { return nil, nil }

// Placeholders are the ExpressionAttributeNames and -Values of one request.
type Placeholders struct{}

// NewPlaceholders: a nil map is an absent member, an empty one was sent empty.
func NewPlaceholders(names map[string]string, values map[string]ddb.Value) *Placeholders { return nil }

// Check refuses empty maps and malformed keys.
func (p *Placeholders) Check() error { return nil }

// CheckAbsent refuses the maps of a request without expressions; null follows the
// text about the values, as ": FilterExpression is null".
func (p *Placeholders) CheckAbsent(null string) error { return nil }

// Unused refuses placeholders that no expression bound so far has used.
func (p *Placeholders) Unused() error { return nil }

// CheckMix refuses requests with both legacy and expression members, given the
// names of those present.
func CheckMix(legacy, expressions []string) error { return nil }

// Ref is an attribute an expression names: its top-level name and whether the
// path goes on below it.
type Ref struct {
	Name   string
	Nested bool
}

// Condition is a bound condition or filter.
type Condition struct{}

// Eval reports whether it holds for item; nil is a missing item.
func (c *Condition) Eval(item ddb.Item) bool { return false }

// Refs yields every path in the order of the text.
func (c *Condition) Refs() iter.Seq[Ref] { return nil }

// Projection is a bound projection.
type Projection struct{}

// Apply returns the projected part of item, never nil.
func (p *Projection) Apply(item ddb.Item) ddb.Item { return nil }

// Refs yields every path in the order of the text; names may repeat.
func (p *Projection) Refs() iter.Seq[Ref] { return nil }

// NewProjection is AttributesToGet; it refuses duplicates.
func NewProjection(attributesToGet []string) (*Projection, error) { return nil, nil }

// Update is a bound update expression or AttributeUpdates.
type Update struct{}

// Apply returns the updated item. old is nil when there is none; then the result is
// based on key, or is nil when the update only removes. Errors are of kind Runtime.
func (u *Update) Apply(old, key ddb.Item) (ddb.Item, error) { return nil, nil }

// UpdatedOld returns what ReturnValues UPDATED_OLD shows of old.
func (u *Update) UpdatedOld(old ddb.Item) ddb.Item { return nil }

// UpdatedNew returns what UPDATED_NEW shows of the updated item.
func (u *Update) UpdatedNew(updated ddb.Item) ddb.Item { return nil }

// Targets yields the paths it assigns or removes, in the order of the text.
func (u *Update) Targets() iter.Seq[Ref] { return nil }

// Refs yields every path, also those only read.
func (u *Update) Refs() iter.Seq[Ref] { return nil }

// Op is a comparison of legacy conditions and of key conditions.
type Op uint8

// The comparisons, named as ComparisonOperator on the wire.
const (
	EQ Op = iota + 1
	NE
	LT
	LE
	GT
	GE
	BETWEEN
	BEGINS_WITH
	IN
	CONTAINS
	NOT_CONTAINS
	NULL
	NOT_NULL
)

// ParseOp is the inverse of Op.String.
func ParseOp(s string) (Op, bool) { return 0, false }

// Term is one comparison of one top-level attribute.
type Term struct {
	Attr   string
	Op     Op
	Values []ddb.Value
}

// KeyCondition is a bound key condition expression.
type KeyCondition struct{}

// Terms returns its comparisons in the order of the text.
func (k *KeyCondition) Terms() ([]Term, error) { return nil, nil }

// KeyAttr is a key attribute of a table or index.
type KeyAttr struct {
	Name string
	Kind ddb.Kind
}

// KeyMatch is a key condition laid over a key schema.
type KeyMatch struct {
	Hash  []ddb.Value // one per HASH attribute
	Range []ddb.Value // equality on the first RANGE attributes
	Last  Term        // comparison other than EQ of the next RANGE attribute; Op 0: none
}

// MatchKey lays terms over the HASH and RANGE attributes of a table or index.
func MatchKey(terms []Term, hash, ranges []KeyAttr) (KeyMatch, error) { return KeyMatch{}, nil }

// CheckTerms makes the argument checks of QueryFilter, ScanFilter and KeyConditions.
func CheckTerms(terms []Term) error { return nil }

// ParseConditionalOperator checks a ConditionalOperator that was sent along with n
// conditions; any is true for OR.
func ParseConditionalOperator(sent string, n int) (any bool, err error) { return false, nil }

// NewCondition is a legacy filter: all terms hold, or at least one when any is set.
func NewCondition(terms []Term, any bool) *Condition { return nil }

// Expected is one member of the Expected map. Zero values mean absent.
type Expected struct {
	Attr   string
	Exists *bool
	Value  ddb.Value
	Op     Op
	List   []ddb.Value // nil when absent
}

// ExpectedTerms checks Expected and returns what it asks for.
func ExpectedTerms(expected []Expected) ([]Term, error) { return nil, nil }

// Action is what AttributeUpdates does to an attribute; zero is PUT.
type Action uint8

// The actions.
const (
	Put Action = iota
	Add
	Delete
)

// AttributeUpdate is one member of AttributeUpdates; a zero Value is an absent one.
type AttributeUpdate struct {
	Attr   string
	Action Action
	Value  ddb.Value
}

// NewUpdate is AttributeUpdates; without any it is the update that does nothing.
func NewUpdate(updates []AttributeUpdate) (*Update, error) { return nil, nil }
