// SPDX-License-Identifier: Apache-2.0

package api

import "github.com/extenddb/extenddb/format/ddb"

// TagResourceInput is the request of TagResource.
type TagResourceInput struct {
	ResourceArn *string
	Tags        []Tag
}

// UntagResourceInput is the request of UntagResource.
type UntagResourceInput struct {
	ResourceArn *string
	TagKeys     []string
}

// ListTagsOfResourceInput is the request of ListTagsOfResource. Its NextToken
// is ignored: there is one page.
type ListTagsOfResourceInput struct{ ResourceArn *string }

// ListTagsOfResourceOutput is the response of ListTagsOfResource; Tags is never
// null.
type ListTagsOfResourceOutput struct{ Tags []ddb.Tag }
