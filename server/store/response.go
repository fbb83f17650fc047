package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ridge-llm/ridge/internal/size"
)

// Response is what is known of a kept response. Its content, whatever the API keeps of it, lies behind the description in the same file.
type Response struct {
	ID      string `json:"id"`
	Created int64  `json:"created_at"`
	Bytes   int64  `json:"bytes"`           // of the content
	Owner   string `json:"owner,omitempty"` // the tenant that it answered; "": there were no keys
}

func (r Response) identity() string { return r.ID }

// counted is what the response takes of its owner's quota, in bytes.
func (r Response) counted() int64 { return max(r.Bytes, smallest) }

// ConversationPrefix begins the ids of conversations, which are kept as responses are.
const ConversationPrefix = "conv_"

// NewResponseID is an id for PutResponse, and NewConversationID one of a conversation.
func NewResponseID() string { return newID("resp_") }

// NewConversationID is beside NewResponseID.
func NewConversationID() string { return newID(ConversationPrefix) }

// PutResponse keeps a response's content under an id of NewResponseID's. The owner's oldest ones are forgotten where there is no room for all;
// one that is larger than the whole quota is refused with a *QuotaError. Where an error keeps it from being written, what was kept under the id before stays.
func (s *Store) PutResponse(owner, id string, content []byte) error {
	r := Response{ID: id, Created: time.Now().Unix(), Bytes: int64(len(content)), Owner: owner}
	s.mu.Lock()
	quota := s.quota.Responses
	_, rewritten := s.responses[id]
	s.mu.Unlock()
	if quota > 0 && r.counted() > quota {
		return &QuotaError{fmt.Sprintf("the response takes %s and all of them may take %s (--response-quota)", size.Text(r.counted()), size.Text(quota))}
	}
	if err := s.writeResponse(r, content); err != nil {
		if rewritten {
			return err
		}
		return errors.Join(err, s.remove(s.description("responses", id))) // it may have its name and only not be durable
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.responses[id] = r
	s.forgetResponses(owner)
	return nil
}

// writeResponse writes the description, a line of JSON, and the content behind it.
func (s *Store) writeResponse(r Response, content []byte) error {
	head, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := s.begin("responses", r.ID+".json")
	if err != nil {
		return err
	}
	if _, err := f.Write(append(append(head, '\n'), content...)); err != nil {
		return f.abandon(err)
	}
	return f.commit()
}

// before reports whether a response was kept, or changed, before another.
func (r Response) before(other Response) bool {
	return cmp.Or(cmp.Compare(r.Created, other.Created), cmp.Compare(r.ID, other.ID)) < 0
}

// forgetResponses removes the oldest responses of an owner that are beyond the quota. s.mu is held.
func (s *Store) forgetResponses(owner string) {
	var taken int64
	for _, r := range s.responses {
		if r.Owner == owner {
			taken += r.counted()
		}
	}
	for s.quota.Responses > 0 && taken > s.quota.Responses {
		var oldest Response
		for _, r := range s.responses {
			if r.Owner == owner && (oldest.ID == "" || r.before(oldest)) {
				oldest = r
			}
		}
		taken -= oldest.counted()
		delete(s.responses, oldest.ID)
		_ = s.remove(s.description("responses", oldest.ID)) // what is left of it is found again at the next start
	}
}

// Response is what is known of one response.
func (s *Store) Response(id string) (Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.responses[id]
	if !ok {
		return r, fmt.Errorf("%w: there is no response %q", ErrNotFound, id)
	}
	return r, nil
}

// ResponseContent is what PutResponse was given: of one that is being written again the old or the new.
func (s *Store) ResponseContent(id string) ([]byte, error) {
	if _, err := s.Response(id); err != nil {
		return nil, err
	}
	f, err := s.disk.OpenFile(s.description("responses", id), os.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	defer f.Close()
	all, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	head, content, _ := bytes.Cut(all, []byte("\n"))
	var r Response // the file's own: it may have been written since
	if err := json.Unmarshal(head, &r); err != nil || r.Bytes != int64(len(content)) {
		return nil, fmt.Errorf("store: the response %s is damaged: %d bytes behind the description %.200q", id, len(content), head)
	}
	return content, nil
}

// DeleteResponse removes a response.
func (s *Store) DeleteResponse(id string) error {
	if _, err := s.Response(id); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.responses, id)
	err := s.remove(s.description("responses", id))
	s.mu.Unlock()                                                   // others need not wait for the disk
	return errors.Join(err, syncDir(s.disk, s.folder("responses"))) // or a crash would bring it back
}
