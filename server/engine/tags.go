// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
)

// Limits of tags, in characters.
const (
	maxTags        = 50
	maxTagKey      = 128
	maxTagValue    = 256
	tagKeyReserved = "aws:"
	tooManyTags    = "Number of Tags exceed the current limit for the provided ResourceArn"
)

// TagResource adds tags to a table; one of the same key is replaced.
func (e *Engine) TagResource(ctx context.Context, id auth.Identity, in *api.TagResourceInput, out *api.Body) error {
	var c constraints
	c.required(in.ResourceArn != nil, "resourceArn")
	c.required(in.Tags != nil, "tags")
	if err := c.err(); err != nil {
		return err
	}
	name, err := e.taggedTable(id, *in.ResourceArn)
	if err != nil {
		return err
	}
	if len(in.Tags) == 0 {
		return api.Validation("Atleast one Tag needs to be provided as Input.")
	}
	tags, err := readTags(in.Tags)
	if err != nil {
		return err
	}
	return e.changeTags(ctx, id, name, *in.ResourceArn, func(t *storage.Table) ([]ddb.Tag, error) {
		if err := checkActive(t); err != nil {
			return nil, err
		}
		merged := slices.Clone(tags)
		for _, old := range t.Def.Tags {
			if !slices.ContainsFunc(tags, func(n ddb.Tag) bool { return n.Key == old.Key }) {
				merged = append(merged, old)
			}
		}
		if len(merged) > maxTags {
			return nil, api.Validation(tooManyTags)
		}
		sortTags(merged)
		return merged, nil
	})
}

// UntagResource removes tags from a table; keys that are not there do not matter.
func (e *Engine) UntagResource(ctx context.Context, id auth.Identity, in *api.UntagResourceInput, out *api.Body) error {
	var c constraints
	c.required(in.ResourceArn != nil, "resourceArn")
	c.required(in.TagKeys != nil, "tagKeys")
	if err := c.err(); err != nil {
		return err
	}
	name, err := e.taggedTable(id, *in.ResourceArn)
	if err != nil {
		return err
	}
	if len(in.TagKeys) == 0 {
		return api.Validation("Atleast one Tag Key needs to be provided as Input.")
	}
	for _, key := range in.TagKeys {
		if !isTagKey(key) {
			return badTagKey(&key)
		}
		if err := checkReserved(key); err != nil {
			return err
		}
	}
	if len(in.TagKeys) > maxTags {
		return api.Validation(tooManyTags)
	}
	return e.changeTags(ctx, id, name, *in.ResourceArn, func(t *storage.Table) ([]ddb.Tag, error) {
		return slices.DeleteFunc(slices.Clone(t.Def.Tags), func(old ddb.Tag) bool { return slices.Contains(in.TagKeys, old.Key) }), nil
	})
}

// ListTagsOfResource tells the tags of a table. Like the service, which tells
// nobody here whether a table exists, it denies access to one that does not.
func (e *Engine) ListTagsOfResource(ctx context.Context, id auth.Identity, in *api.ListTagsOfResourceInput, out *api.Body) error {
	var c constraints
	c.required(in.ResourceArn != nil, "resourceArn")
	if err := c.err(); err != nil {
		return err
	}
	name, err := e.taggedTable(id, *in.ResourceArn)
	if err != nil {
		return err
	}
	t, _, err := e.store.Describe(ctx, id.Account, name)
	switch {
	case errors.Is(err, storage.ErrTableNotFound):
		return notAuthorized(id, "ListTagsOfResource", *in.ResourceArn)
	case err != nil:
		return err
	case t.Status == storage.Deleting:
		return noResource(*in.ResourceArn)
	}
	return out.JSON(api.ListTagsOfResourceOutput{Tags: append([]ddb.Tag{}, t.Def.Tags...)})
}

// changeTags replaces the tags of a table, which may be CREATING, by what change
// says.
func (e *Engine) changeTags(ctx context.Context, id auth.Identity, name, arn string, change func(*storage.Table) ([]ddb.Tag, error)) error {
	_, err := e.store.UpdateTable(ctx, id.Account, name, func(t *storage.Table) (ddb.TableDefinition, error) {
		if t.Status == storage.Deleting {
			return t.Def, storage.ErrTableNotFound
		}
		def := t.Def
		tags, err := change(t)
		if err == nil && slices.Equal(tags, def.Tags) {
			err = errNoChange
		}
		if len(tags) == 0 {
			tags = nil
		}
		def.Tags = tags
		return def, err
	})
	switch {
	case errors.Is(err, errNoChange):
		return nil
	case errors.Is(err, storage.ErrTableNotFound):
		return noResource(arn)
	}
	return err
}

// taggedTable returns the name in the ResourceArn of a table.
func (e *Engine) taggedTable(id auth.Identity, arn string) (string, error) {
	if arn == "" {
		return "", api.Validation("Invalid TableArn")
	}
	if !strings.HasPrefix(arn, arnPrefix) {
		return "", invalidParameter("ARNs must start with 'arn:': " + arn)
	}
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) != 6 {
		return "", badResource(arn)
	}
	kind, rest, _ := strings.Cut(parts[5], "/")
	name, sub, nested := strings.Cut(rest, "/")
	switch {
	case parts[2] != "dynamodb", kind != "table", strings.HasPrefix(sub, "backup/"):
		return "", invalidParameter("Provided Arn is not a DynamoDB resource arn: " + arn)
	case parts[1] != partition(e.region), parts[3] != e.region:
		return "", badResource(arn)
	case parts[4] != id.Account:
		return "", api.AccessDenied("Access is denied")
	case strings.HasPrefix(sub, "stream/"):
		return "", noResource(arn)
	case nested:
		return "", invalidParameter("Invalid resource arn provided, only table or stream is accepted. Provided resource arn: " + arn)
	case !isName(name) || len(name) < minNameLength || len(name) > maxNameLength:
		return "", badResource(arn)
	}
	return name, nil
}

func badResource(arn string) error {
	return api.Validation("Invalid TableArn: Invalid ResourceArn provided as input " + arn)
}

func noResource(arn string) error {
	return api.ResourceNotFound("Requested resource not found: ResourceArn: " + arn + " not found")
}

func notAuthorized(id auth.Identity, operation, arn string) error {
	return api.AccessDenied("User: arn:aws:iam::" + id.Account + ":root is not authorized to perform: dynamodb:" + operation + " on resource: " + arn)
}

// readTags checks the tags of a request and sorts them by key.
func readTags(sent []api.Tag) ([]ddb.Tag, error) {
	var tags []ddb.Tag
	seen := map[string]bool{}
	for _, t := range sent {
		if t.Key == nil || !isTagKey(*t.Key) {
			return nil, badTagKey(t.Key)
		}
		if t.Value == nil || !isTagText(*t.Value, maxTagValue) {
			return nil, api.Validation("The Tag Value provided is invalid, Value: " + orNull(t.Value))
		}
		if err := checkReserved(*t.Key); err != nil {
			return nil, err
		}
		if seen[*t.Key] {
			return nil, api.Validation("Duplicate Tag Keys provided as input: Duplicate Tag Key found " + *t.Key)
		}
		seen[*t.Key] = true
		tags = append(tags, ddb.Tag{Key: *t.Key, Value: *t.Value})
	}
	if len(tags) > maxTags {
		return nil, api.Validation(tooManyTags)
	}
	sortTags(tags)
	return tags, nil
}

func sortTags(tags []ddb.Tag) {
	slices.SortFunc(tags, func(a, b ddb.Tag) int { return cmp.Compare(a.Key, b.Key) })
}

func isTagKey(key string) bool { return key != "" && isTagText(key, maxTagKey) }

func badTagKey(key *string) error {
	return api.Validation("The Tag Key provided is invalid, Key: " + orNull(key))
}

// checkReserved refuses the prefix of the service's own tags, in any case.
func checkReserved(key string) error {
	if n := len(tagKeyReserved); len(key) >= n && strings.EqualFold(key[:n], tagKeyReserved) {
		return api.Validation("Tag Key cannot be prefixed with aws:, Key: " + key)
	}
	return nil
}

// isTagText reports whether s has at most limit characters, all of them letters
// of any script, digits, blanks of any kind or one of + - = . _ : / @.
func isTagText(s string, limit int) bool {
	for _, r := range s {
		if !unicode.In(r, unicode.L, unicode.N, unicode.Z) && !strings.ContainsRune("+-=._:/@", r) {
			return false
		}
	}
	return utf8.RuneCountInString(s) <= limit
}

func orNull(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}
