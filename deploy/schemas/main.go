// Schemas writes a JSON schema for each kind of Kubernetes' API into a folder, out of the OpenAPI document that its module has, for kubeconform; fields that a kind does not have
// are errors. The Makefile's target manifests runs it.
//
//	go run ./deploy/schemas SWAGGER.JSON FOLDER
package main

import (
	"encoding/json"
	"log"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("schemas: give the OpenAPI document and the folder")
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		log.Fatal("schemas: ", err)
	}
}

func write(document, folder string) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	var api struct {
		Definitions map[string]map[string]any `json:"definitions"`
	}
	if err := json.Unmarshal(text, &api); err != nil {
		return err
	}
	for name, d := range api.Definitions {
		if _, ok := d["properties"]; ok {
			d["additionalProperties"] = false
		}
		if strings.HasSuffix(name, ".IntOrString") || strings.HasSuffix(name, ".Quantity") {
			d["type"], d["format"] = []string{"string", "integer", "number"}, ""
		}
	}
	all := filepath.Join(folder, "all.json")
	if text, err = json.Marshal(api); err != nil {
		return err
	}
	if err := os.WriteFile(all, text, 0o644); err != nil {
		return err
	}
	for name, d := range api.Definitions {
		kinds, _ := d["x-kubernetes-group-version-kind"].([]any)
		for _, k := range kinds {
			kind, _ := k.(map[string]any)["kind"].(string)
			version, _ := k.(map[string]any)["version"].(string)
			file := filepath.Join(folder, strings.ToLower(kind)+"-"+version+".json")
			if err := os.WriteFile(file, []byte(`{"$ref": "all.json#/definitions/`+name+`"}`), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
