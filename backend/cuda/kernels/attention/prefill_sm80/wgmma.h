// The wgmma of sm90.h in the sizes of heads of more than 128: scores of 80 keys, and P × V of 256 numbers of a head.
#pragma once
#include "../../sm90.h"

#define ACC_NAMES40 ACC_NAMES32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define ACC_OPERANDS40(kind) ACC_OPERANDS32(kind), FOUR_OPERANDS(kind, 32), FOUR_OPERANDS(kind, 36)

WGMMA_SS(wgmma, "bf16", 80, 40)
WGMMA_SS(wgmmaF16, "f16", 80, 40)
WGMMA_RS_TRANS(wgmmaRSTrans, "bf16", 256, 128)
WGMMA_RS_TRANS(wgmmaRSTransF16, "f16", 256, 128)
