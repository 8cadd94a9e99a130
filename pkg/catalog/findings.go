package catalog

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/finding"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// FindingsKnown reports whether the findings in the snapshot were found with the rules of this
// program. If they were found with other rules, [Tool.Severe] is unreliable until the next sync.
// [Snapshot.Findings] then finds them again, which is slower.
func (s *Snapshot) FindingsKnown() bool {
	return !slices.ContainsFunc(s.shards, func(part *shard) bool { return part.rules != finding.Version })
}

// Findings returns the findings about item i.
func (s *Snapshot) Findings(i int) []finding.Finding {
	part, n := s.at(i)
	if part.rules != finding.Version {
		return s.find(i)
	}
	return part.findings(n)
}

// findings returns the findings of item i of the shard.
func (s *shard) findings(i int) []finding.Finding {
	first, end := span(s.row(i)[atFindings:])
	var list []finding.Finding
	for at := first; at < end; at++ {
		row := s.found[at*findingSize:]
		flags := binary.LittleEndian.Uint32(row[atFindingFlags:])
		list = append(list, finding.Finding{
			Code: s.string(row[atCode:]), Where: s.string(row[atWhere:]), Text: s.string(row[atText:]),
			From: int(binary.LittleEndian.Uint32(row[atFrom:])), To: int(binary.LittleEndian.Uint32(row[atFrom+4:])),
			Severe: flags&flagSevere != 0, Name: flags&flagName != 0,
		})
	}
	return list
}

// find computes the findings of tool i.
func (s *Snapshot) find(i int) []finding.Finding {
	t := s.Tool(i)
	return finding.Scan(t.Definition, definitionOf(t.ID.Kind, t.ApprovedRaw), s.names().For(t.ID.Server))
}

func (s *Snapshot) allNames() finding.Names {
	return finding.NewNames(numberedIDs(0, s.Len(), s.ID))
}

// definitionOf returns the approved definition, with which [finding.Scan] compares the current one.
// It returns nil if there is none, or if it cannot be read.
func definitionOf(kind tool.Kind, approved json.RawMessage) *tool.Definition {
	if len(approved) == 0 {
		return nil
	}
	d, err := tool.ReadItem(kind, approved)
	if err != nil { // an old record, whose definition cannot be read
		return nil
	}
	return &d
}

// checkAdded checks the fields that format 3 added to a row: each must refer to bytes inside its
// section. first is the number of findings of the rows before this row, so the row's findings must
// begin there. checkAdded returns the number at which they end.
func (s *shard) checkAdded(row []byte, first int) (end int, err error) {
	if err := errors.Join(checkSpan(row[atEndorsedHash:], len(s.text)), checkSpan(row[atEndorsedBy:], len(s.text)), checkSpan(row[atBlocked:], len(s.json))); err != nil {
		return 0, err
	}
	if _, err := decodeBlocked(s.bytes(row[atBlocked:])); err != nil {
		return 0, fmt.Errorf("blocked definitions: %w", err)
	}
	from, to := span(row[atFindings:])
	if from != uint64(first) || to > uint64(len(s.found)/findingSize) {
		return 0, fmt.Errorf("findings %d–%d, want the first to be %d", from, to, first)
	}
	return int(to), nil
}

// checkFindings checks that the section has exactly the n findings of all tools, and that the texts
// of each finding are inside the text section.
func (s *shard) checkFindings(n int) error {
	if n*findingSize != len(s.found) {
		return fmt.Errorf("%d findings, but the tools have %d", len(s.found)/findingSize, n)
	}
	for at := 0; at < len(s.found); at += findingSize {
		for field := 0; field < atFrom; field += spanSize {
			if err := checkSpan(s.found[at+field:], len(s.text)); err != nil {
				return fmt.Errorf("finding %d: %w", at/findingSize, err)
			}
		}
	}
	return nil
}

// encodeBlocked returns the blocked definitions of a tool as JSON. Hardly any tool has one.
func encodeBlocked(list []approval.Remembered) []byte {
	if len(list) == 0 {
		return nil
	}
	b, err := json.Marshal(list)
	if err != nil { // a time beyond the year 9999, which no store accepts
		return []byte("unknown") // Build decodes its own output, which fails at this text
	}
	return b
}

func decodeBlocked(b []byte) ([]approval.Remembered, error) {
	if len(b) == 0 {
		return nil, nil
	}
	var list []approval.Remembered
	err := json.Unmarshal(b, &list)
	return list, err
}
