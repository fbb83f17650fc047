// A thread's accumulators of a wgmma, 4 to 128 registers of an array d, as inline assembly names them: ACC_NAMESn are the names of n, which come
// first of the operands, and ACC_OPERANDSn(kind) the operands themselves, of kind "+f" or "+r".
#pragma once

#define ACC_NAMES4 "%0,%1,%2,%3"
#define ACC_NAMES8 ACC_NAMES4 ",%4,%5,%6,%7"
#define ACC_NAMES16 ACC_NAMES8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define ACC_NAMES32 ACC_NAMES16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define ACC_NAMES48 ACC_NAMES32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define ACC_NAMES64 ACC_NAMES48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define ACC_NAMES80 ACC_NAMES64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define ACC_NAMES96 ACC_NAMES80 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define ACC_NAMES112 ACC_NAMES96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define ACC_NAMES128 ACC_NAMES112 ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

#define FOUR_OPERANDS(kind, i) kind(d[i]), kind(d[i + 1]), kind(d[i + 2]), kind(d[i + 3])
#define ACC_OPERANDS4(kind) FOUR_OPERANDS(kind, 0)
#define ACC_OPERANDS8(kind) ACC_OPERANDS4(kind), FOUR_OPERANDS(kind, 4)
#define ACC_OPERANDS16(kind) ACC_OPERANDS8(kind), FOUR_OPERANDS(kind, 8), FOUR_OPERANDS(kind, 12)
#define ACC_OPERANDS32(kind) ACC_OPERANDS16(kind), FOUR_OPERANDS(kind, 16), FOUR_OPERANDS(kind, 20), FOUR_OPERANDS(kind, 24), FOUR_OPERANDS(kind, 28)
#define ACC_OPERANDS48(kind) ACC_OPERANDS32(kind), FOUR_OPERANDS(kind, 32), FOUR_OPERANDS(kind, 36), FOUR_OPERANDS(kind, 40), FOUR_OPERANDS(kind, 44)
#define ACC_OPERANDS64(kind) ACC_OPERANDS48(kind), FOUR_OPERANDS(kind, 48), FOUR_OPERANDS(kind, 52), FOUR_OPERANDS(kind, 56), FOUR_OPERANDS(kind, 60)
#define ACC_OPERANDS80(kind) ACC_OPERANDS64(kind), FOUR_OPERANDS(kind, 64), FOUR_OPERANDS(kind, 68), FOUR_OPERANDS(kind, 72), FOUR_OPERANDS(kind, 76)
#define ACC_OPERANDS96(kind) ACC_OPERANDS80(kind), FOUR_OPERANDS(kind, 80), FOUR_OPERANDS(kind, 84), FOUR_OPERANDS(kind, 88), FOUR_OPERANDS(kind, 92)
#define ACC_OPERANDS112(kind) ACC_OPERANDS96(kind), FOUR_OPERANDS(kind, 96), FOUR_OPERANDS(kind, 100), FOUR_OPERANDS(kind, 104), FOUR_OPERANDS(kind, 108)
#define ACC_OPERANDS128(kind) ACC_OPERANDS112(kind), FOUR_OPERANDS(kind, 112), FOUR_OPERANDS(kind, 116), FOUR_OPERANDS(kind, 120), FOUR_OPERANDS(kind, 124)
