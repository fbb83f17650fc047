package comm

import "fmt"

// AllToAll has every rank send to[i] to rank i, and fill from[i] with what that sends it. Lengths are known on both sides, and 0 of what is not sent. It is made of Send and Recv, which wait for nobody
// in this order: each rank sends to the next one first, then to the one after it.
func AllToAll(c Communicator, to, from [][]float32) error {
	n, me := c.Size(), c.Rank()
	if len(to) != n || len(from) != n || len(to[me]) != len(from[me]) {
		return fmt.Errorf("comm: rank %d of %d gives %d pieces to an all-to-all and takes %d", me, n, len(to), len(from))
	}
	copy(from[me], to[me])
	sent := make(chan error, 1)
	go func() {
		var err error
		for i := 1; i < n && err == nil; i++ {
			if x := to[(me+i)%n]; len(x) > 0 {
				err = c.Send((me+i)%n, x)
			}
		}
		sent <- err
	}()
	var err error
	for i := 1; i < n && err == nil; i++ {
		if x := from[(me-i+n)%n]; len(x) > 0 {
			err = c.Recv((me-i+n)%n, x)
		}
	}
	if err != nil { // the other ranks wait for no more, and neither does this one's Send
		c.Abort(err)
	}
	if failed := <-sent; err == nil {
		err = failed
	}
	return err
}
