// Route measures what `ridge route` costs: requests through it to servers that answer at once, beside the same requests to those servers
// themselves and, for comparison, through net/http/httputil's ReverseProxy.
//
//	go build -o ridge ./cmd/ridge && go run ./bench/route -ridge ./ridge -rate 10000 -seconds 5
//
// Every proxy is a process of its own with GOMAXPROCS=1, the load and the servers are this one. Requests are sent at a rate, whether or not earlier
// ones were answered, and latency counts from when a request was due. What a proxy can do on a core is the requests it answered by its CPU time.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

var (
	ridge    = flag.String("ridge", "./ridge", "the program under test")
	rate     = flag.Float64("rate", 10000, "requests a second")
	seconds  = flag.Float64("seconds", 5, "of each run")
	conns    = flag.Int("conns", 64, "connections of clients")
	size     = flag.Int("body", 2048, "bytes of a prompt")
	events   = flag.Int("events", 0, "events of a streamed answer; 0: one answer of 512 bytes")
	replicas = flag.Int("replicas", 4, "servers")
	rounds   = flag.Int("rounds", 2, "times that each is measured, by turns")
	proxyTo  = flag.String("reverse-proxy", "", "be a ReverseProxy to this address, on standard input's listener")
)

func main() {
	flag.Parse()
	if *proxyTo != "" {
		reverseProxy(*proxyTo)
		return
	}
	var servers []string
	for range *replicas {
		s := httptest.NewServer(http.HandlerFunc(answer))
		defer s.Close()
		servers = append(servers, s.URL)
	}
	fmt.Printf("%.0f requests/s, prompts of %d bytes, %d connections, %d servers, %.0f s each\n", *rate, *size, *conns, *replicas, *seconds)
	fmt.Println("| through | answered/s | p50 ms | p99 ms | p99.9 ms | CPU µs a request | requests/s of a core |\n|---|---|---|---|---|---|---|")
	for range *rounds {
		measure("nothing", servers[0], nil)
		measure("ridge route", "", exec.Command(*ridge, append([]string{"route", "--listen", "127.0.0.1:18480"}, servers...)...))
		self, err := os.Executable()
		if err != nil {
			log.Fatal(err)
		}
		measure("ReverseProxy", "", exec.Command(self, "-reverse-proxy", servers[0]))
	}
}

const address = "127.0.0.1:18480"

// reverseProxy is the comparison.
func reverseProxy(to string) {
	u, err := url.Parse(to)
	if err != nil {
		log.Fatal(err)
	}
	p := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true}}
	log.Fatal(http.ListenAndServe(address, p))
}

var reply = []byte(`{"object":"chat.completion","x":"` + strings.Repeat("x", 470) + `"}`)

// answer is a server that has nothing to do.
func answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if *events == 0 || r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(reply)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for range *events {
		_, _ = w.Write([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"word\"}}]}\n\n"))
		w.(http.Flusher).Flush()
	}
}

// measure sends the load to a URL, or to the proxy that cmd is.
func measure(name, server string, cmd *exec.Cmd) {
	if cmd != nil {
		server = "http://" + address
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		if err := cmd.Start(); err != nil {
			log.Fatal(err)
		}
		for try := 0; ; try++ {
			r, err := http.Get(server + "/v1/models")
			if err == nil {
				r.Body.Close()
				if r.StatusCode == http.StatusOK && try > 0 {
					break
				}
			}
			if try > 100 {
				log.Fatalf("%s does not answer: %v %s", name, err, errs.String())
			}
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(300 * time.Millisecond)
	}
	before := used(cmd)
	took := load(strings.TrimPrefix(server, "http://"))
	cpu := used(cmd) - before
	slices.Sort(took)
	at := func(q float64) float64 { return took[int(q*float64(len(took)-1))].Seconds() * 1e3 }
	line := fmt.Sprintf("| %s | %.0f | %.2f | %.2f | %.2f |", name, float64(len(took))/(*seconds), at(0.5), at(0.99), at(0.999))
	if cmd != nil {
		each := cpu.Seconds() / float64(len(took))
		line += fmt.Sprintf(" %.1f | %.0f |", each*1e6, 1/each)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
	fmt.Println(line)
}

// used is a process's CPU time so far.
func used(cmd *exec.Cmd) time.Duration {
	if cmd == nil {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	if err != nil {
		log.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+2:]))
	var user, system int
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		log.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// load sends requests as they are due, each on the next free connection, and returns how long each took since it was due.
func load(server string) []time.Duration {
	var mu sync.Mutex
	var all []time.Duration
	due := make(chan time.Time, 1<<20)
	var wait sync.WaitGroup
	for range *conns {
		wait.Go(func() {
			var took []time.Duration
			c, err := net.Dial("tcp", server)
			if err != nil {
				log.Fatal(err)
			}
			defer c.Close()
			r := bufio.NewReader(c)
			for t := range due {
				if _, err := c.Write(request()); err != nil {
					log.Fatal(err)
				}
				a, err := http.ReadResponse(r, nil)
				if err == nil {
					_, err = io.Copy(io.Discard, a.Body)
				}
				if err != nil || a.StatusCode != http.StatusOK {
					log.Fatal(cmp.Or(err, fmt.Errorf("status %d", a.StatusCode)))
				}
				took = append(took, time.Since(t))
			}
			mu.Lock()
			all = append(all, took...)
			mu.Unlock()
		})
	}
	start := time.Now()
	for n := 0; float64(n) < *rate**seconds; n++ {
		t := start.Add(time.Duration(float64(n) / *rate * 1e9))
		time.Sleep(time.Until(t))
		due <- t
	}
	close(due)
	wait.Wait()
	return all
}

// request is a chat request: one of a hundred conversations, at some turn.
func request() []byte {
	word := fmt.Sprintf("conversation %d ", rand.IntN(100))
	text := strings.Repeat(word, *size/len(word)+1)[:*size/2+rand.IntN(*size/2)]
	body := `{"model":"","stream":true,"messages":[{"role":"user","content":"` + text + `"}]}`
	return fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}
