package boot

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A keeper is a source with versions.
type keeper struct {
	current, previous string
	err               error // of the current version
	errPrevious       error
	reads             atomic.Int32
	ref               string // "": secretsmanager:seal
}

func (k *keeper) Secret(_ context.Context, ref string) (string, error) {
	k.reads.Add(1)
	if ref != cmp.Or(k.ref, "secretsmanager:seal") {
		return "", errors.New("asked for " + ref)
	}
	return k.current, k.err
}

func (k *keeper) Versions(ctx context.Context, ref string) (v secret.Versions, err error) {
	text, err := k.Secret(ctx, ref)
	v.Current.Text, v.Previous.Text = secret.New(text), secret.New(k.previous)
	if !errors.Is(k.errPrevious, secret.ErrNotFound) {
		err = errors.Join(err, k.errPrevious)
	}
	return v, err
}

var (
	oldKey = strings.Repeat("a", seal.MinKey)
	newKey = strings.Repeat("b", seal.MinKey)
)

func program(t *testing.T, source secret.Source, key string) *Program {
	t.Helper()
	s, err := Load(environ([]string{"PORTCULLIS_AUTH=none", "PORTCULLIS_SEAL_KEY=" + key}))
	require.OK(t, err)
	return New(s, Stores{}, Options{Secrets: source})
}

// A text that was sealed with the previous key still opens, wherever the two keys are stored.
func TestSealKeyIsReplaced(t *testing.T) {
	sealed, err := program(t, nil, oldKey).Sealer.Seal(t.Context(), seal.Session, []byte("x"))
	require.OK(t, err)
	for name, tt := range map[string]struct {
		p    *Program
		want error
	}{
		"in clear":                            {program(t, nil, newKey+","+oldKey), nil},
		"in clear, removed":                   {program(t, nil, newKey), seal.ErrForged},
		"in a vault":                          {program(t, &keeper{current: newKey, previous: oldKey}, "secretsmanager:seal"), nil},
		"in a vault, unchanged":               {program(t, &keeper{current: oldKey, errPrevious: secret.ErrNotFound}, "${secretsmanager:seal}"), nil},
		"in a vault, removed":                 {program(t, &keeper{current: newKey, errPrevious: secret.ErrNotFound}, "secretsmanager:seal"), seal.ErrForged},
		"in a vault, previous key unreadable": {program(t, &keeper{current: oldKey, errPrevious: errors.New("down")}, "secretsmanager:seal"), seal.ErrNoKey},
		"vault down":                          {program(t, &keeper{err: errors.New("down"), previous: oldKey}, "secretsmanager:seal"), seal.ErrNoKey},
		"no vault":                            {program(t, nil, "secretsmanager:seal"), seal.ErrNoKey},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := tt.p.Sealer.Open(t.Context(), seal.Session, sealed); !errors.Is(err, tt.want) {
				t.Errorf("open: %v, want %v", err, tt.want)
			}
		})
	}
}

// A start does not wait for a key that may never be needed.
func TestSealKeyIsReadAtTheFirstUse(t *testing.T) {
	k := &keeper{current: newKey, errPrevious: secret.ErrNotFound}
	p := program(t, k, "secretsmanager:seal")
	if n := k.reads.Load(); n != 0 {
		t.Errorf("the start read the key %d times, want 0", n)
	}
	for range 3 {
		_, err := p.Sealer.Seal(t.Context(), seal.Session, nil)
		require.OK(t, err)
	}
	if n := k.reads.Load(); n != 1 {
		t.Errorf("the key was read %d times for three texts, want 1", n)
	}
	if none := program(t, nil, "").Sealer; none != nil {
		t.Errorf("there is a sealer without a key")
	}
}

func TestLoadSealKeyFaults(t *testing.T) {
	for key, fault := range map[string]bool{
		"": false, newKey: false, newKey + "," + oldKey: false, "ssm:/k": false,
		"too short": true, newKey + ",too short": true, newKey + ",": true, "," + newKey: true,
	} {
		_, err := Load(environ([]string{"PORTCULLIS_AUTH=none", "PORTCULLIS_SEAL_KEY=" + key}))
		if (err != nil) != fault || fault && (!strings.Contains(err.Error(), sealKeySetting) || strings.Contains(err.Error(), "too short")) {
			t.Errorf("%q: %v", key, err)
		}
	}
}
