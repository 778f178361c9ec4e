// SPDX-License-Identifier: Apache-2.0

// Package auth says who a request comes from.
package auth

// DefaultAccount is the account of every request of a server without
// authentication: twelve digits, as AWS account ids have.
const DefaultAccount = "000000000000"

// Identity is the caller of one request.
type Identity struct {
	Account   string // twelve digits; owns the tables the request sees
	Principal string // ARN of the caller, "" for anonymous
}

// Anonymous is the identity of callers of a server without authentication.
func Anonymous() Identity { return Identity{Account: DefaultAccount} }
