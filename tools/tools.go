//go:build tools

// Package tools pins the programs that build and check Ridge; none of them is part of the product.
package tools

import (
	_ "github.com/mmcloughlin/avo/build"
	_ "honnef.co/go/tools/cmd/staticcheck"
)
