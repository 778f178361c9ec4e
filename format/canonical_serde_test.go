// SPDX-License-Identifier: Apache-2.0

package format

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"
)

// TestTimestampsAsSerde compares how 100,000 instants are written with what
// serde_json 1.0.87 printed after it had parsed them: a reader that
// re-serialises the manifest with it computes the same digest. The sum is that
// of its output, a line each.
func TestTimestampsAsSerde(t *testing.T) {
	t.Parallel()
	const recorded = "e3f0e4c91999e66c9771ca581881ad2c95cc353d3064b4ab13253c09cf639a05"
	sum, x := sha256.New(), uint64(1)
	for i := range 100_000 {
		x = x*6364136223846793005 + 1442695040888963407
		ms := 1000 + (x>>16)%(100_000_000_000_000-1000)
		if i%2 == 0 {
			ms = 1_700_000_000_000 + (x>>16)%200_000_000_000
		}
		sum.Write(append(appendFloat(nil, Seconds(time.UnixMilli(int64(ms)))), '\n'))
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != recorded {
		t.Errorf("the sum of all is %s, serde_json's is %s", got, recorded)
	}
}
