// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"reflect"
	"testing"

	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/format/ddb"
)

// TestDefinitionSettles: what the source was about to become, and what another
// program writes for "none", does not stay with the copy for good.
func TestDefinitionSettles(t *testing.T) {
	t.Parallel()
	kms := func(status string) *ddb.SSEDescription {
		return &ddb.SSEDescription{Status: status, SSEType: "KMS", KMSMasterKeyArn: "arn:aws:kms:eu-west-1:123456789012:key/k"}
	}
	n := func(v int64) *int64 { return &v }
	for name, c := range map[string]struct {
		sse, wantSSE *ddb.SSEDescription
		caps         *format.OnDemand
		wantCaps     *ddb.OnDemandThroughput
	}{
		"nothing":           {},
		"on":                {sse: kms("ENABLED"), wantSSE: kms("ENABLED")},
		"getting another":   {sse: kms("UPDATING"), wantSSE: kms("ENABLED")},
		"getting on":        {sse: kms("ENABLING"), wantSSE: kms("ENABLED")},
		"getting off":       {sse: kms("DISABLING")},
		"off":               {sse: &ddb.SSEDescription{Status: "DISABLED"}},
		"in a later state":  {sse: kms("PAINTING")},
		"no maximum":        {caps: &format.OnDemand{MaxReadRequestUnits: n(-1), MaxWriteRequestUnits: n(-1)}},
		"none of one kind":  {caps: &format.OnDemand{MaxReadRequestUnits: n(-1), MaxWriteRequestUnits: n(5)}, wantCaps: &ddb.OnDemandThroughput{MaxWriteRequestUnits: n(5)}},
		"maximums not said": {caps: &format.OnDemand{}},
	} {
		m := &format.Manifest{Table: format.SourceTable{
			Name: "source", BillingMode: ddb.PayPerRequest, SSE: c.sse, OnDemand: c.caps,
			KeySchema:            []ddb.KeySchemaElement{{AttributeName: "pk", KeyType: ddb.Hash}},
			AttributeDefinitions: []ddb.AttributeDefinition{{AttributeName: "pk", AttributeType: "S"}},
		}}
		def, err := Definition(m, "copy")
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(def.SSE, c.wantSSE) || !reflect.DeepEqual(def.OnDemandThroughput, c.wantCaps) {
			t.Errorf("%s: %+v, %+v", name, def.SSE, def.OnDemandThroughput)
		}
	}
}
