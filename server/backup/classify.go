// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"strings"
)

// Classify makes an *Error of what ended work on backups: the class and hint of
// its cause, the text as it is. A context that is over explains every failure.
func Classify(ctx context.Context, err error) *Error { return classify(ctx, err) }

// about says which object an error is about, unless it does so itself.
func about(op, key string, err error) error {
	if strings.Contains(err.Error(), key) {
		return err
	}
	return fmt.Errorf("%s %s: %w", op, key, err)
}
