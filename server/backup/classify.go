// SPDX-License-Identifier: Apache-2.0

package backup

import "context"

// Classify makes an *Error of what ended work on backups: the class and hint of
// its cause, the text as it is. A context that is over explains every failure.
func Classify(ctx context.Context, err error) *Error { return classify(ctx, err) }
