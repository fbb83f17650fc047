// Package mpi is communication by MPI, the message passing interface of clusters, reached by dlopen: Open MPI, or MPICH and what has its ABI (Intel MPI, MVAPICH, Cray). The
// processes have been started by its mpirun, or by srun. Messages go by MPI; what is added is added here, so that sums have the order of ranks.
//
// Source: MPI: A Message-Passing Interface Standard, version 3.1; mpi.h of both libraries for handles.
package mpi

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
	"unsafe"
)

// call is a function of MPI.
type call int

const (
	initThread call = iota
	initialized
	finalize
	commRank
	commSize
	commGroup
	groupIncl
	commCreateGroup
	commSetErrhandler
	isend
	irecv
	test
	errorString
	numCalls
)

var symbols = [numCalls]string{
	initThread: "MPI_Init_thread", initialized: "MPI_Initialized", finalize: "MPI_Finalize", commRank: "MPI_Comm_rank", commSize: "MPI_Comm_size",
	commGroup: "MPI_Comm_group", groupIncl: "MPI_Group_incl", commCreateGroup: "MPI_Comm_create_group", commSetErrhandler: "MPI_Comm_set_errhandler",
	isend: "MPI_Isend", irecv: "MPI_Irecv", test: "MPI_Test", errorString: "MPI_Error_string",
}

// handle is a communicator, a group, a type or a request: a pointer of Open MPI's, or a number of 32 bits of MPICH's.
type handle = uintptr

// abi is the handles that programs are compiled with, which differ between the libraries.
type abi struct {
	name                       string
	world, bytes, errorsReturn handle
	statusIgnore               uintptr
}

// mpich are those of MPICH's ABI, numbers.
var mpich = abi{"MPICH", 0x44000000, 0x4c00010d, 0x54000001, 1}

// openMPI are those of Open MPI, which are addresses of its variables.
func openMPI(symbol func(string) uintptr) abi {
	return abi{"Open MPI", symbol("ompi_mpi_comm_world"), symbol("ompi_mpi_byte"), symbol("ompi_mpi_errors_return"), 0}
}

// Library is MPI in this process.
type Library struct {
	fn  [numCalls]uintptr
	abi abi
	mu  sync.Mutex // of all calls: one thread at a time is in MPI
}

const (
	serialized = 2 // MPI_THREAD_SERIALIZED
	mostError  = 1024
)

// ErrMissing is in the error of Open where there is no MPI.
var ErrMissing = errors.New("mpi: no MPI library has been found")

// files are the names of libraries: of the MPI whose mpirun has started the process first.
func files() []string {
	mpich, open := []string{"libmpich.so.12", "libmpi.so.12"}, []string{"libmpi.so.40"}
	if os.Getenv("OMPI_COMM_WORLD_SIZE") != "" || os.Getenv("PMIX_RANK") != "" {
		return append(open, mpich...)
	}
	return append(mpich, open...)
}

// Open loads MPI and starts it: once in a process.
func Open() (*Library, error) {
	l := &Library{}
	if err := l.load(); err != nil {
		return nil, err
	}
	for c, fn := range l.fn {
		if fn == 0 {
			return nil, fmt.Errorf("mpi: %s has no %s; MPI 3 or newer is needed", l.abi.name, symbols[c])
		}
	}
	was, provided := new(int32), new(int32)
	if err := l.call("asking whether it is started", initialized, uintptr(unsafe.Pointer(was))); err != nil {
		return nil, err
	}
	if *was != 0 {
		return nil, errors.New("mpi: MPI has been started in this process before; ranks meet once")
	}
	// Open MPI would put handlers of its own in place of Go's.
	if err := os.Setenv("OMPI_MCA_opal_signal", ""); err != nil {
		return nil, err
	}
	if err := l.call("starting", initThread, 0, 0, serialized, uintptr(unsafe.Pointer(provided))); err != nil {
		return nil, err
	}
	if *provided < serialized {
		return nil, fmt.Errorf("mpi: %s was built for one thread (level %d, and %d is needed)", l.abi.name, *provided, serialized)
	}
	return l, l.call("setting how errors are reported", commSetErrhandler, l.abi.world, l.abi.errorsReturn)
}

// Name is the library's: Open MPI or MPICH.
func (l *Library) Name() string { return l.abi.name }

// World is this process's number among those that mpirun has started, and how many they are.
func (l *Library) World() (rank, size int, err error) {
	r, s := new(int32), new(int32)
	err = errors.Join(l.call("asking for the rank", commRank, l.abi.world, uintptr(unsafe.Pointer(r))), l.call("asking for the size", commSize, l.abi.world, uintptr(unsafe.Pointer(s))))
	return int(*r), int(*s), err
}

// Close ends MPI when all processes do. One that has gone would have the others wait: they do for no longer than a time.
func (l *Library) Close(within time.Duration) error {
	done := make(chan error, 1)
	go func() { done <- l.call("ending", finalize) }()
	select {
	case err := <-done:
		return err
	case <-time.After(within):
		return fmt.Errorf("mpi: the other processes have not ended within %s", within)
	}
}

// call runs a function, in the only thread that is in MPI then, and makes an error of its code.
//
//go:uintptrescapes
func (l *Library) call(doing string, c call, args ...uintptr) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	code := syscall(l.fn[c], args...)
	if code == 0 {
		return nil
	}
	text, n := new([mostError]byte), new(int32)
	if syscall(l.fn[errorString], uintptr(code), uintptr(unsafe.Pointer(text)), uintptr(unsafe.Pointer(n))) != 0 {
		*n = 0
	}
	return fmt.Errorf("mpi: %s: %s (%s returned %d)", doing, text[:min(max(*n, 0), mostError)], symbols[c], code)
}
