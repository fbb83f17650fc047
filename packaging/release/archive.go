package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// file is one of an archive.
type file struct {
	name, path string // in the archive, and where it is
	mode       int64
}

// archive writes files of a target below a folder of its name: a zip for Windows, a tar.gz for others.
func archive(dir string, t target, version string, files []file, when time.Time) (string, error) {
	name := t.name(version)
	var b bytes.Buffer
	var err error
	path := filepath.Join(dir, name+".tar.gz")
	if t.os == "windows" {
		path = filepath.Join(dir, name+".zip")
		err = zipped(&b, name, files, when)
	} else {
		packed := gzip.NewWriter(&b)
		err = errors.Join(tarred(packed, name+"/", files, when), packed.Close())
	}
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, b.Bytes(), 0o644)
}

// tarred writes a tar of files, all of one time and of root.
func tarred(w interface{ Write([]byte) (int, error) }, folder string, files []file, when time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		data, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: folder + f.name, Mode: f.mode, Size: int64(len(data)), ModTime: when, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(data); err != nil {
			return err
		}
	}
	return t.Close()
}

func zipped(b *bytes.Buffer, folder string, files []file, when time.Time) error {
	z := zip.NewWriter(b)
	for _, f := range files {
		data, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: folder + "/" + f.name, Method: zip.Deflate, Modified: when}
		h.SetMode(os.FileMode(f.mode))
		w, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	return z.Close()
}
