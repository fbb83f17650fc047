package driver_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
)

// addOne is PTX by hand, so that this package's tests need no kernel of the backend's: y[i] += value.
const addOne = `.version 8.3
.target sm_80
.address_size 64
.visible .entry add(.param .align 8 .b8 p[16]) {
	.reg .b64 %rd<4>;
	.reg .b32 %r<4>;
	.reg .f32 %f<4>;
	ld.param.u64 %rd1, [p];
	ld.param.f32 %f1, [p+8];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd3, %rd1, %rd2;
	ld.global.f32 %f2, [%rd3];
	add.f32 %f3, %f2, %f1;
	st.global.f32 [%rd3], %f3;
	ret;
}
`

// gpu runs a test on the first GPU, or skips it and says why there is none.
func gpu(t *testing.T, f func(c *driver.Context) error) {
	t.Helper()
	d, err := driver.Open()
	if err != nil {
		t.Skipf("no GPU to test on: %v", err)
	}
	devices, err := d.Devices()
	if err != nil {
		t.Skipf("no GPU to test on: %v", err)
	}
	t.Log(devices[0])
	c, err := devices[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Do(func() error { return f(c) }); err != nil {
		t.Fatal(err)
	}
}

func TestOpenSaysWhyNot(t *testing.T) {
	d, err := driver.Open()
	if err == nil {
		if d.Version() == "" {
			t.Error("an open driver has no version")
		}
		return
	}
	if !strings.HasPrefix(err.Error(), "cuda: ") || len(err.Error()) < 30 {
		t.Errorf("the error is not a sentence: %v", err)
	}
}

type addParams struct {
	Y     driver.Ptr
	Value float32
	_     uint32
}

func TestLaunchCaptureReplay(t *testing.T) {
	gpu(t, func(c *driver.Context) error {
		a := driver.NewAssembler(c)
		if err := addThrice(t, c, a); err != nil {
			return err
		}
		return a.Close()
	})
}

// text is a kernel's text for an Assembler.
func text(ptx string) func() ([]byte, error) {
	return func() ([]byte, error) { return []byte(ptx), nil }
}

// addThrice runs the kernel once directly and twice from a recorded graph of one launch.
func addThrice(t *testing.T, c *driver.Context, a *driver.Assembler) error {
	k, err := a.Kernel("test", "add", text(addOne))
	if err != nil {
		return err
	}
	s, err := c.NewStream()
	if err != nil {
		return err
	}
	defer s.Close()
	y, err := c.Alloc(64)
	if err != nil {
		return err
	}
	defer c.Free(y)
	p := addParams{Y: y, Value: 1}
	once := func() error { return driver.Launch(s, k, driver.Grid{Threads: 16}, &p) }
	if err := s.Fill(y, 0, 64); err != nil {
		return err
	}
	if err := once(); err != nil {
		return err
	}
	g, err := s.Capture(once)
	if err != nil {
		return err
	}
	defer g.Close()
	for range 2 {
		if err := s.Replay(g); err != nil {
			return err
		}
	}
	out := make([]byte, 64)
	if err := s.Download(out, y); err != nil {
		return err
	}
	if err := s.Synchronize(); err != nil {
		return err
	}
	if want := bytes.Repeat([]byte{0, 0, 0x40, 0x40}, 16); !bytes.Equal(out, want) { // 3.0 as float32
		t.Errorf("after three additions the device holds % x", out)
	}
	return nil
}

func TestErrorsCarryTheDriversSentence(t *testing.T) {
	gpu(t, func(c *driver.Context) error {
		_, err := c.Alloc(1 << 50)
		if !driver.IsOutOfMemory(err) || !strings.Contains(err.Error(), "CUDA_ERROR_OUT_OF_MEMORY") {
			t.Errorf("allocating a pebibyte gave %v", err)
		}
		a := driver.NewAssembler(c)
		if _, err := a.Kernel("nonsense", "add", text(strings.Replace(addOne, "add.f32", "no.such", 1))); err != nil {
			return err
		}
		err = a.Wait()
		if err == nil || !strings.Contains(err.Error(), "assembling nonsense/add") || !strings.Contains(err.Error(), "no.such") && !strings.Contains(err.Error(), "line 14") {
			t.Errorf("wrong PTX gave %v", err)
		}
		return a.Close()
	})
}

func TestLaunchAllocatesNothing(t *testing.T) {
	gpu(t, func(c *driver.Context) error {
		a := driver.NewAssembler(c)
		defer a.Close()
		k, err := a.Kernel("test", "add", text(addOne))
		if err != nil {
			return err
		}
		s, err := c.NewStream()
		if err != nil {
			return err
		}
		y, err := c.Alloc(64)
		if err != nil {
			return err
		}
		p := &addParams{Y: y, Value: 1}
		n := testing.AllocsPerRun(100, func() {
			if err := driver.Launch(s, k, driver.Grid{Threads: 16}, p); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("a launch allocates %g times", n)
		}
		return s.Synchronize()
	})
}

// TestIsFault: which errors end a GPU's use.
func TestIsFault(t *testing.T) {
	for code, want := range map[int]bool{1: false, 2: false, 100: false, 214: true, 600: false, 700: true, 715: true, 719: true, 720: false} {
		if err := fmt.Errorf("a step: %w", &driver.Error{Code: code}); driver.IsFault(err) != want {
			t.Errorf("code %d is a fault: %v, want %v", code, !want, want)
		}
	}
	if driver.IsFault(nil) || driver.IsFault(errors.New("another")) {
		t.Error("what is no error of a call is no fault")
	}
}
