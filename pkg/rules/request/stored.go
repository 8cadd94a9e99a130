package request

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
)

// Encode returns the list at its next revision, and its stored form.
func (a List) Encode() (next List, data []byte, err error) {
	if err := a.Check(); err != nil {
		return List{}, nil, err
	}
	a.Rev++
	data, err = encode(a)
	return a, data, err
}

// DecodeList reads what [List.Encode] wrote. It refuses a document under the key of another
// agent.
func DecodeList(key string, data []byte) (List, error) {
	a, err := decode[List](data)
	if err == nil {
		err = errors.Join(a.Check(), mine(key, a.Agent))
	}
	if err != nil {
		return List{}, fmt.Errorf("stored requests: %w", err)
	}
	return a, nil
}

// Encode returns g at its next revision, and its stored form.
func (g Granted) Encode() (next Granted, data []byte, err error) {
	if err := g.Check(); err != nil {
		return Granted{}, nil, err
	}
	g.Rev++
	data, err = encode(g)
	return g, data, err
}

// DecodeGranted reads what [Granted.Encode] wrote. It refuses a document under the key of another
// agent.
func DecodeGranted(key string, data []byte) (Granted, error) {
	g, err := decode[Granted](data)
	if err == nil {
		err = errors.Join(g.Check(), mine(key, g.Agent))
	}
	if err != nil {
		return Granted{}, fmt.Errorf("stored decisions about requests: %w", err)
	}
	return g, nil
}

// DecodeGrantedDoc returns the decisions in the document of [GrantedKey]. An absent document has
// none.
func DecodeGrantedDoc(d document.Doc) (g Granted, err error) {
	if d.Rev == 0 {
		return Granted{}, nil
	}
	g, err = DecodeGranted(strings.TrimPrefix(d.Part, grantPart), d.Data)
	g.Rev = d.Rev
	return g, err
}

func mine(key string, a Agent) error {
	if a.Key() != key {
		return fmt.Errorf("they are of agent %.64q, but under the key of another agent", a.ID)
	}
	return nil
}

func encode(doc any) ([]byte, error) {
	data, err := json.Marshal(doc)
	if err == nil && len(data) > maxDoc {
		err = ErrFull
	}
	return data, err
}

func decode[T any](data []byte) (doc T, err error) {
	err = json.Unmarshal(data, &doc)
	return doc, err
}
