package offload

// MaxStores is the most stores beside host memory.
const MaxStores = 2

// Kept is what is kept beyond the device, in figures.
type Kept struct {
	Pages, Used   int                  // of host memory, of the main cache group
	Found         [2 + MaxStores]int64 // tokens of prompts that were found in host memory, in each store, and at peers
	Read, Written [2 + MaxStores]int64 // bytes, likewise; of host memory none, and those sent to peers
	Dropped       int64                // pages' worth of tokens that were not written, since too many waited
	Failed        int64                // writes that failed, as when a disk is full
	Expired       int64                // leases of pages for peers that nobody gave back
	Damaged       int64                // files that were not whole
}
