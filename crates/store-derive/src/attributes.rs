//! `#[row(...)]`: what is said of the table beside the struct, and of a column beside its field.

use proc_macro2::TokenStream;
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{DeriveInput, Error, Expr, Field, Ident, LitStr, Token, Type, parenthesized};

/// Names of fields.
type Names = Punctuated<Ident, Token![,]>;

/// `#[row(table = "...", primary_key(...), index(name(...)), unique(name(...)))]`.
pub(crate) struct Container {
    pub(crate) table: LitStr,
    primary_key: Option<Names>,
    /// Name, fields, whether it is unique.
    indexes: Vec<(Ident, Names, bool)>,
}

/// One field: `#[row(name = "...", type = ..., default = ...)]`.
pub(crate) struct Member {
    pub(crate) field: Ident,
    pub(crate) name: LitStr,
    pub(crate) of: Type,
    pub(crate) data_type: Option<Expr>,
    pub(crate) default: Option<Expr>,
}

/// Calls `each` for each part of all `#[row(...)]`.
fn parts(
    attributes: &[syn::Attribute],
    mut each: impl FnMut(&ParseNestedMeta<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let ours = attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("row"));
    for attribute in ours {
        attribute.parse_nested_meta(|part| each(&part))?;
    }
    Ok(())
}

/// `(a, b)`
fn names(part: &ParseNestedMeta<'_>) -> Result<Names, Error> {
    let content;
    parenthesized!(content in part.input);
    Names::parse_separated_nonempty(&content)
}

impl Container {
    pub(crate) fn read(input: &DeriveInput) -> Result<Self, Error> {
        let (mut table, mut primary_key, mut indexes) = (None, None, Vec::new());
        parts(&input.attrs, |part| {
            if part.path.is_ident("table") {
                table = Some(part.value()?.parse()?);
            } else if part.path.is_ident("primary_key") {
                primary_key = Some(names(part)?);
            } else if part.path.is_ident("index") || part.path.is_ident("unique") {
                let unique = part.path.is_ident("unique");
                part.parse_nested_meta(|index| {
                    indexes.push((index.path.require_ident()?.clone(), names(&index)?, unique));
                    Ok(())
                })?;
            } else {
                return Err(part.error(
                    "of a table: table = \"...\", primary_key(...), index(name(...)), unique(name(...))",
                ));
            }
            Ok(())
        })?;
        let table = table.ok_or_else(|| {
            Error::new(
                input.ident.span(),
                "the table's name is missing: #[row(table = \"...\")]",
            )
        })?;
        Ok(Container {
            table,
            primary_key,
            indexes,
        })
    }

    /// The calls that define the primary key and the indexes.
    pub(crate) fn keys(&self, members: &[Member]) -> Result<TokenStream, Error> {
        let columns = |fields: &Names| -> Result<Vec<LitStr>, Error> {
            let of = |field: &Ident| {
                let member = members.iter().find(|member| member.field == *field);
                let member =
                    member.ok_or_else(|| Error::new(field.span(), format!("there is no field {field}")))?;
                Ok(member.name.clone())
            };
            fields.iter().map(of).collect()
        };
        let mut calls = TokenStream::new();
        if let Some(fields) = &self.primary_key {
            let columns = columns(fields)?;
            calls.extend(quote!(.primary_key(&[#(#columns),*])));
        }
        for (name, fields, unique) in &self.indexes {
            let (name, columns) = (name.to_string(), columns(fields)?);
            calls.extend(match unique {
                true => quote!(.unique(#name, &[#(#columns),*])),
                false => quote!(.index(#name, &[#(#columns),*])),
            });
        }
        Ok(calls)
    }
}

impl Member {
    pub(crate) fn read(field: &Field) -> Result<Self, Error> {
        let ident = field.ident.clone().expect("a struct with named fields");
        let (mut name, mut data_type, mut default) = (None, None, None);
        parts(&field.attrs, |part| {
            if part.path.is_ident("name") {
                name = Some(part.value()?.parse()?);
            } else if part.path.is_ident("type") {
                data_type = Some(part.value()?.parse()?);
            } else if part.path.is_ident("default") {
                default = Some(part.value()?.parse()?);
            } else {
                return Err(part.error("of a column: name = \"...\", type = Type::..., default = ..."));
            }
            Ok(())
        })?;
        let text = ident.to_string();
        let name =
            name.unwrap_or_else(|| LitStr::new(text.strip_prefix("r#").unwrap_or(&text), field.span()));
        Ok(Member {
            field: ident,
            name,
            of: field.ty.clone(),
            data_type,
            default,
        })
    }
}
