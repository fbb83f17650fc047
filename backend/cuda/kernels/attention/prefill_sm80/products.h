// The products of sm90.h in the sizes of wide heads: scores of 80 keys, and sums of 256 numbers of a head.
#pragma once
#include "../../sm90.h"

#define NAMES40 NAMES32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define SUMS40(kind) SUMS32(kind), FOUR_SUMS(kind, 32), FOUR_SUMS(kind, 36)

PRODUCT(product, "bf16", 80, 40)
PRODUCT(productHalf, "f16", 80, 40)
PRODUCT_T(productT, "bf16", 256, 128)
PRODUCT_T(productTHalf, "f16", 256, 128)
