// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
)

const (
	sseTypeKMS        = "KMS"
	defaultKMSKey     = "alias/aws/dynamodb"
	encryptedDefault  = "Table is already encrypted by default"
	encryptedGivenKey = "Table is already encrypted with given KMSMasterKeyId. Use KMSMasterKeyId parameter if you want to change Master Key"
)

// There are no keys here: what is asked for is checked as far as its form goes,
// kept and told again.

// checkSSE checks which members of the specification go together.
func checkSSE(s *api.SSESpecification) error {
	switch {
	case s == nil:
	case s.Enabled != nil && !*s.Enabled:
		if s.SSEType != nil {
			return invalidParameter("SSEType can not be specified if Enabled is false")
		}
		if s.KMSMasterKeyId != nil {
			return invalidParameter("KMSMasterKeyId can not be specified if Enabled is false")
		}
	case s.SSEType != nil && *s.SSEType != sseTypeKMS:
		return invalidParameter("SSEType " + *s.SSEType + " is not supported")
	case s.SSEType == nil && s.KMSMasterKeyId != nil:
		return invalidParameter("SSEType KMS is required if KMSMasterKeyId is specified")
	}
	return nil
}

// enablesSSE reports whether a specification that passed checkSSE asks for a
// key other than the service's own.
func enablesSSE(s *api.SSESpecification) bool {
	return s != nil && (orZero(s.Enabled) || s.SSEType != nil)
}

// sse describes encryption with the key of that id, alias or ARN.
func (e *Engine) sse(account string, key *string) *ddb.SSEDescription {
	arn := defaultKMSKey
	if key != nil {
		arn = *key
	}
	switch {
	case strings.HasPrefix(arn, arnPrefix):
	case strings.HasPrefix(arn, "alias/"):
		arn = e.arn("kms", account, arn)
	default:
		arn = e.arn("kms", account, "key/"+arn)
	}
	return &ddb.SSEDescription{Status: statusEnabled, SSEType: sseTypeKMS, KMSMasterKeyArn: arn}
}

// changeSSE is what UpdateTable makes of the encryption a table has.
func (e *Engine) changeSSE(account string, now *ddb.SSEDescription, s *api.SSESpecification) (*ddb.SSEDescription, error) {
	switch {
	case !enablesSSE(s) && now == nil:
		return nil, invalidParameter(encryptedDefault)
	case !enablesSSE(s):
		return nil, nil
	case now != nil && s.KMSMasterKeyId != nil && *s.KMSMasterKeyId == now.KMSMasterKeyArn:
		return nil, invalidParameter(encryptedGivenKey)
	case now != nil && s.KMSMasterKeyId == nil:
		return now, nil // the key it has, once more
	}
	return e.sse(account, s.KMSMasterKeyId), nil
}
