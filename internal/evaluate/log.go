package evaluate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/ridge-llm/ridge/internal/regular"
)

// Settings is what must be the same for an evaluation to be gone on with: names of settings, and their values as text.
type Settings map[string]string

// Log is the file of an evaluation under way: JSON lines, of which the first is the settings and each further one the result of a part, so that a
// run that was ended goes on where it was. A nil Log keeps nothing.
type Log struct {
	file *os.File
	done map[int]json.RawMessage // results of parts that were in the file
}

// logged is a line.
type logged struct {
	Settings Settings        `json:"settings,omitempty"`
	Part     *int            `json:"part,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
}

// OpenLog opens the file, or makes it if there is none. One that was made with other settings is refused. A line that was not written whole is
// dropped.
func OpenLog(path string, s Settings) (*Log, error) {
	data, err := regular.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("evaluate: %w", err)
	}
	l := &Log{done: map[int]json.RawMessage{}}
	whole, err := l.read(path, data, s)
	if err != nil {
		return nil, err
	}
	if l.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return nil, fmt.Errorf("evaluate: %w", err)
	}
	if err = l.file.Truncate(whole); err == nil {
		_, err = l.file.Seek(whole, 0)
	}
	if err == nil && whole == 0 {
		err = l.write(logged{Settings: s})
	}
	if err != nil {
		l.file.Close()
		return nil, fmt.Errorf("evaluate: %w", err)
	}
	return l, nil
}

// read takes what the file has. It returns how many bytes of it are whole lines.
func (l *Log) read(path string, data []byte, s Settings) (whole int64, err error) {
	for n := 1; ; n++ {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			return whole, nil
		}
		var x logged
		if err := json.Unmarshal(data[:end], &x); err != nil {
			return 0, fmt.Errorf("evaluate: %s, line %d: %w; it is no evaluation under way, give --resume another file", path, n, err)
		}
		switch {
		case n == 1:
			if err := s.check(path, x.Settings); err != nil {
				return 0, err
			}
		case x.Part == nil || x.Result == nil:
			return 0, fmt.Errorf("evaluate: %s, line %d: it has no part and its result; give --resume another file", path, n)
		default:
			l.done[*x.Part] = x.Result
		}
		whole += int64(end) + 1
		data = data[end+1:]
	}
}

// check refuses other settings.
func (s Settings) check(path string, before Settings) error {
	if len(before) == 0 {
		return fmt.Errorf("evaluate: %s begins with no settings: it is no evaluation under way, give --resume another file", path)
	}
	for name, now := range s {
		if was := before[name]; was != now {
			return fmt.Errorf("evaluate: %s is of an evaluation whose %s was %q and is now %q; remove it, give that setting, or give --resume another file", path, name, was, now)
		}
	}
	return nil
}

func (l *Log) write(x logged) error {
	line, err := json.Marshal(x)
	if err != nil {
		return err
	}
	_, err = l.file.Write(append(line, '\n')) // in one write, so that a line is whole or the last
	return err
}

// found fills result with that of a part, if the log has it.
func (l *Log) found(part int, result any) (bool, error) {
	if l == nil || l.done[part] == nil {
		return false, nil
	}
	if err := json.Unmarshal(l.done[part], result); err != nil {
		return false, fmt.Errorf("evaluate: the result of part %d in %s: %w; remove the file", part, l.file.Name(), err)
	}
	return true, nil
}

// put adds the result of a part.
func (l *Log) put(part int, result any) error {
	if l == nil {
		return nil
	}
	raw, err := json.Marshal(result)
	if err == nil {
		err = l.write(logged{Part: &part, Result: raw})
	}
	if err != nil {
		return fmt.Errorf("evaluate: the result of part %d: %w", part, err)
	}
	return nil
}

// Close closes the file.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}
