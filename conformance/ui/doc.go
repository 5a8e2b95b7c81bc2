// Package ui drives the pages of the playground in headless Chromium as a person does: it finds buttons and fields by
// the names that a screen reader reads, clicks, types and reads. `make test-ui` runs it, which sets TGI_UI=1; without
// it the tests are left out. With TGI_UI_SHOTS each test leaves pictures of its pages in that folder.
//
// A page that logs an error, breaks the policy of its content, or asks another host fails its test.
package ui
