#include "go_asm.h"
#include "textflag.h"

// func entry()
TEXT ·entry(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	MOVQ DX, R12             // is for the runtime
	SUBQ $16, SP             // struct rlimit: of now, the highest possible
	MOVQ $97, AX             // getrlimit
	MOVQ $9, DI              // RLIMIT_AS
	MOVQ SP, SI
	SYSCALL
	MOVQ $const_leastAddressSpace, CX
	LEAQ ·tooLittleAddressSpace(SB), R13
	CMPQ 0(SP), CX
	JCS  refuse
	MOVQ $97, AX
	MOVQ $2, DI              // RLIMIT_DATA
	MOVQ SP, SI
	SYSCALL
	MOVQ $const_leastData, CX
	LEAQ ·tooLittleData(SB), R13
	CMPQ 0(SP), CX
	JCS  refuse
	ADDQ $16, SP
	MOVQ R12, DX
	JMP  _rt0_amd64_linux(SB)

refuse:
	MOVQ 0(R13), SI          // the text of the string
	MOVQ 8(R13), DX          // its length
	MOVQ $1, AX              // write
	MOVQ $2, DI
	SYSCALL
	MOVQ $231, AX            // exit_group
	MOVQ $1, DI
	SYSCALL
