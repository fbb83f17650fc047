package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/regular"
)

// roleFlags say whether a server computes prompts for others, or has others compute its own.
type roleFlags struct {
	role   string
	listen string
	host   string
	secret string
	lease  time.Duration
	peers  []string
}

// transferVariable is where the secret is where no file has it.
const transferVariable = "RIDGE_KV_TRANSFER_SECRET"

func (f *roleFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.role, "role", "", "prefill: others go on from the prompts that are computed here; decode: prompts are computed by others; both; default: neither. Requests say which, by vLLM's kv_transfer_params")
	fl.StringVar(&f.listen, "kv-transfer-listen", "127.0.0.1:5600", "address at which a server with --role prefill is asked for pages of the KV cache, HOST:PORT")
	fl.StringVar(&f.host, "kv-transfer-host", "", "name or address under which decode servers reach --kv-transfer-listen; default: its own")
	fl.StringVar(&f.secret, "kv-transfer-secret-file", "", "file with what servers with a --role prove to each other that they know, 16 bytes or more; default: the variable "+transferVariable)
	fl.DurationVar(&f.lease, "kv-transfer-lease", 0, "how long pages are kept for a decode server that does not ask for them; 0: 30s")
	fl.StringSliceVar(&f.peers, "kv-transfer-peers", nil, "servers that requests may have one with --role decode or both ask for pages: names, addresses and networks such as 10.0.0.0/24, with commas between them; default: any, so that whoever sends requests may have it connect to any address")
}

// prepare fills in the options' KVTransfer.
func (f *roleFlags) prepare(o *ridge.Options, many bool) error {
	switch f.role {
	case "":
		if f.secret != "" || f.host != "" || f.lease != 0 || len(f.peers) > 0 {
			return errors.New("--kv-transfer-secret-file, --kv-transfer-host, --kv-transfer-lease and --kv-transfer-peers are for servers with a --role: prefill, decode or both")
		}
		return nil
	case "prefill", "decode", "both":
	default:
		return fmt.Errorf("--role is %q; prefill, decode and both are possible", f.role)
	}
	if many {
		return errors.New("--role is for servers of one model")
	}
	t := &o.KVTransfer
	t.Secret = os.Getenv(transferVariable)
	if f.secret != "" {
		text, err := regular.ReadFile(f.secret)
		if err != nil {
			return fmt.Errorf("--kv-transfer-secret-file: %w", err)
		}
		t.Secret = strings.TrimSpace(string(text))
	}
	if t.Secret == "" {
		return fmt.Errorf("servers with a --role need a secret: give a file with it (--kv-transfer-secret-file), or the variable %s", transferVariable)
	}
	if f.role == "prefill" && len(f.peers) > 0 {
		return errors.New("--kv-transfer-peers is for servers that ask others for pages: --role decode or both")
	}
	t.Peers = f.peers
	if f.role == "decode" {
		return nil
	}
	if _, _, err := net.SplitHostPort(f.listen); err != nil {
		return fmt.Errorf("--kv-transfer-listen: %w", err)
	}
	t.Listen, t.Host, t.Lease = f.listen, f.host, f.lease
	return nil
}
