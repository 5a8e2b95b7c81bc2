package main

import (
	"encoding/csv"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/examples/internal/served"
)

// TestServed: whatever the model would say, the reply is a table that a reader of CSV takes.
func TestServed(t *testing.T) {
	folder := served.Folder(t, map[string]string{"tgi.toml": "tgi.toml"})
	served.GoPlugin(t, filepath.Join(folder, "plugins", "csv-columns.wasm"), ".")
	s := served.Start(t, folder)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			most := 1 + i%3
			r := s.Ask(t, "What pet does Tomas have?", fmt.Sprintf(
				`{"do_sample":true,"temperature":1.5,"seed":%d,"max_new_tokens":300,"grammar":{"type":"grammar","language":"csv-columns","value":"pet text\nage int\nborn date\nsize small|large","params":{"rows":%d}}}`, i+1, most))
			if err := table(r.Text, most); err != nil {
				t.Errorf("%+v: %v", r, err)
			}
		})
	}
	wg.Wait()
	s.Documented(t, "README.md")
}

// table says what is wrong with a table.
func table(text string, most int) error {
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return err
	}
	if len(rows) < 2 || len(rows) > 1+most || strings.Join(rows[0], ",") != "pet,age,born,size" {
		return fmt.Errorf("%d rows, the first %v", len(rows), rows[0])
	}
	for _, row := range rows[1:] {
		if _, err := strconv.Atoi(row[1]); err != nil {
			return err
		}
		if _, err := time.Parse(time.DateOnly, row[2]); err != nil {
			return err
		}
		if row[0] == "" || row[3] != "small" && row[3] != "large" {
			return fmt.Errorf("row %v", row)
		}
	}
	return nil
}
