package cpu

import "golang.org/x/sys/unix"

func adviseLargePages(data []byte) {
	_ = unix.Madvise(data, unix.MADV_HUGEPAGE) // advice: small pages serve as well, only slower
}
