package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tgi/sdk"
)

// newPlugin works on plugins without a server.
func newPlugin(c console) *cobra.Command {
	cmd := verbGroup("plugin", "Create, build, check, test, measure, share and operate plugins",
		newPluginNew(), newPluginBuild(), newPluginTest(), newPluginCheck(), newPluginBench(), newPluginRun(),
		newPluginDev(), newPluginList(),
		newPluginSign(c), newPluginPush(), newPluginPull(), newPluginInstall(), newPluginShow(), newPluginVerify())
	cmd.AddCommand(newPluginServed()...)
	cmd.Long = "Work on plugins: most need no server; upload, versions, canary and logs ask one, rollback, rm, list and show may."
	cmd.Example = `  tgi plugin new --lang go|rust|c|as [--kind ` + strings.Join(sdk.KindsOf("go"), "|") + `] NAME
  cd NAME && tgi plugin test && tgi plugin build
  tgi plugin dev NAME
  tgi plugin check NAME.wasm
  tgi plugin bench NAME.wasm
  tgi plugin sign NAME.wasm --key team.key && tgi plugin push NAME.wasm registry.example/plugins/NAME
  tgi plugin install registry.example/plugins/NAME:1.0.0`
	return cmd
}

// objects is a flag that takes a JSON object each time it is given. It implements pflag.Value.
type objects []string

// String implements pflag.Value.
func (o *objects) String() string { return strings.Join(*o, " ") }

// Type implements pflag.Value.
func (o *objects) Type() string { return "object" }

// Set implements pflag.Value.
func (o *objects) Set(text string) error {
	var any map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &any); err != nil || any == nil {
		return fmt.Errorf("want a JSON object such as {\"n\": 3}")
	}
	*o = append(*o, text)
	return nil
}
